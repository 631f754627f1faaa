"""Processes of the example project, on a real server and a real database."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from gantrymq import PullConsumer
from gantrymq.admin import Admin
from gantrymq.demo.ports import free_port
from gantrymq.errors import GantryError
from tests.kill.server import Server
from tests.sql.databases import Place

ROOT = Path(__file__).resolve().parents[2]
SHOP = ROOT / "examples" / "django_shop"
START_SECONDS = 60.0
SETTLE_SECONDS = 120.0
TOPIC = "orders-paid"


class Shop:
    """The shop's processes, its broker and its database."""

    def __init__(self, root: Path, place: Place) -> None:
        self.place = place
        self.broker = Server(root / "broker", "SYNC_FLUSH")
        self.port = free_port()
        self.log = root / "shop.log"
        database = {"SHOP_DATABASE": place.name}
        if place.kind == "postgresql":
            database = {
                "PGDATABASE": place.name, "PGHOST": "127.0.0.1", "PGPORT": str(place.port), "PGUSER": place.user,
            }  # fmt: skip
        paths = os.pathsep.join([str(SHOP), str(ROOT / "src"), *sys.path])
        self.environment = {
            **os.environ, **database, "PYTHONPATH": paths, "NAMESRV_ADDR": self.broker.name_servers,
            "DJANGO_SETTINGS_MODULE": "shop.settings",
        }  # fmt: skip
        self._processes: list[subprocess.Popen[Any]] = []

    def __enter__(self) -> Self:
        self.broker.start()
        self.manage("migrate", "--verbosity", "0")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.broker.kill()

    def manage(self, *command: str) -> None:
        done = subprocess.run(
            [sys.executable, "manage.py", *command], cwd=SHOP, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def process(self, *command: str, output: int | IO[bytes] | None = None) -> subprocess.Popen[Any]:
        """A process that is ended with the test at the latest."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command], cwd=SHOP, env=self.environment, stdout=output or log, stderr=log
            )
        self._processes.append(process)
        return process

    def wait_for(self, words: str) -> None:
        """Wait until a process has written them."""
        deadline = time.monotonic() + START_SECONDS
        while words not in self.log.read_text():
            assert time.monotonic() < deadline, f"{words!r} is not in {self.log}"
            time.sleep(0.02)

    def web(self) -> subprocess.Popen[Any]:
        """A web process that takes requests."""
        process = self.process("manage.py", "runserver", "--noreload", f"127.0.0.1:{self.port}")
        deadline = time.monotonic() + START_SECONDS
        while self.post("orders/none/pay") != 404:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the web process does not answer; see {self.log}")
            time.sleep(0.02)
        return process

    def post(self, path: str) -> int | None:
        """The status of a POST; None: there was no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", f"/{path}")
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def order(self, names: list[str]) -> None:
        rows = ", ".join(f"('{name}', 'open')" for name in names)
        self.place.execute(f"INSERT INTO shop_order (name, status) VALUES {rows}")

    def paid(self) -> list[str]:
        rows = self.place.execute("SELECT name FROM shop_order WHERE status <> 'open'")
        return sorted(row[0] for row in rows)

    def settle(self) -> None:
        """Wait until brokers have no open half message."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while open_ones := asyncio.run(undecided(self.broker.name_servers)):
            assert time.monotonic() < deadline, f"{open_ones} half messages are still open; see {self.log}"
            time.sleep(0.05)

    def delivered(self) -> list[str]:
        found = []
        with PullConsumer(name_servers=self.broker.name_servers) as consumer:
            for queue in consumer.queues(TOPIC):
                offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
                while offset < end:
                    pulled = consumer.pull(queue, offset)
                    found += [message.body.decode() for message in pulled.messages]
                    offset = pulled.next_offset
        return sorted(found)


async def undecided(name_servers: str) -> int:
    try:
        async with Admin(name_servers) as admin:
            return len(await admin.transactions.undecided())
    except GantryError:
        return 1  # the broker does not answer yet


def kill(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
