"""The web service of examples/fastapi_shop: its own tests, and a real server of it that is killed while it is used."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from gantrymq import PullConsumer
from gantrymq.demo.ports import free_port
from tests.kill.server import Server
from tests.support.tied import tied

SHOP = Path(__file__).resolve().parents[2] / "examples" / "fastapi_shop"
PATHS = os.pathsep.join([str(SHOP.parents[1] / "src"), str(SHOP)])
KILLS = 5
SETTLE_SECONDS = 60.0


@pytest.mark.slow
def test_the_tests_of_the_example_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SHOP)]
    done = subprocess.run(command, cwd=SHOP, env={**os.environ, "PYTHONPATH": PATHS}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_is_short() -> None:
    assert sum(len(path.read_text().splitlines()) for path in SHOP.glob("*.py")) < 150


class Shop:
    """``uvicorn shop:app`` as a process."""

    def __init__(self, root: Path, name_servers: str) -> None:
        self.database = root / "shop.db"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = (root / "shop.log").open("ab")
        self._environment = {
            **os.environ,
            "PYTHONPATH": PATHS,
            "NAMESRV_ADDR": name_servers,
            "DATABASE_URL": f"sqlite+aiosqlite:///{self.database}",
        }

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "uvicorn", "shop:app", "--port", str(self.port), "--log-level", "warning"]
        with subprocess.Popen(
            tied(command), cwd=SHOP, env=self._environment, stdout=self._log, stderr=self._log, start_new_session=True
        ) as process:
            try:
                end = time.monotonic() + 30
                while not self._answers():
                    assert process.poll() is None and time.monotonic() < end, "the shop did not start; see shop.log"
                    time.sleep(0.05)
                yield process
            finally:
                process.kill()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/docs").status_code == 200
        except httpx.TransportError:
            return False


def _pay_orders(shop: Shop, round_: int, who: int) -> None:
    """As a browser does, until the server is gone."""
    try:
        with httpx.Client(base_url=shop.url, timeout=10) as client:
            for number in range(1_000):
                order = f"o-{round_}-{who}-{number}"
                client.post(f"/orders/{order}")
                client.post(f"/orders/{order}/payment", params={"cents": 100})
    except httpx.TransportError:
        pass


def _shipped(name_servers: str) -> Counter[str]:
    found: Counter[str] = Counter()
    with PullConsumer(name_servers=name_servers) as consumer:
        for queue in consumer.queues("orders-paid"):
            offset, last = consumer.min_offset(queue), consumer.max_offset(queue)
            while offset < last:
                result = consumer.pull(queue, offset, 256)
                found.update(message.body.decode() for message in result.messages)
                offset = result.next_offset
    return found


@pytest.mark.kill
@pytest.mark.slow
def test_a_server_that_is_killed_at_any_moment_leaves_both_sides_equal(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    server = Server(tmp_path / "broker", "SYNC_FLUSH")
    server.start()
    try:
        shop = Shop(tmp_path, server.name_servers)
        for round_ in range(KILLS):
            with shop.running() as process:
                users = [threading.Thread(target=_pay_orders, args=(shop, round_, who)) for who in range(4)]
                for user in users:
                    user.start()
                time.sleep(0.2 + rng.random())
                process.kill()
                for user in users:
                    user.join()
        with shop.running(), sqlite3.connect(shop.database) as database:  # the last one settles what is open
            paid = {row[0] for row in database.execute("SELECT id FROM orders WHERE status = 'paid'")}
            end = time.monotonic() + SETTLE_SECONDS
            while (shipped := _shipped(server.name_servers)) != dict.fromkeys(paid, 1) and time.monotonic() < end:
                time.sleep(0.2)
        assert len(paid) > KILLS
        assert shipped == dict.fromkeys(paid, 1)
    finally:
        server.kill()
