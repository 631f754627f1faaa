"""The recipes for FastStream and Celery (docs/faststream.md, docs/recipes.md) with real processes.

A server, the service, a worker: each is killed while it works; in the end rows, messages and tasks agree.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gantrymq import Message, Producer, PullConsumer
from gantrymq.faststream import GantryBroker
from tests.kill.server import Server
from tests.support.tied import tied

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATIENCE_S = 90.0
PAYMENTS = 30
KILLS = 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server", "ASYNC_FLUSH")
    made.start()
    yield made
    made.kill()


class Program:
    """A program of an example, which may be killed and started again."""

    def __init__(self, example: str, root: Path, command: list[str], **variables: str) -> None:
        self._at, self.log = EXAMPLES / example, root / "program.log"
        paths = os.pathsep.join([str(EXAMPLES.parent / "src"), str(self._at)])
        self._variables = {**os.environ, "PYTHONPATH": paths, **variables}
        self._command = [sys.executable, *command]

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                tied(self._command), cwd=self._at, env=self._variables, stdout=log, stderr=log, start_new_session=True
            )

    def run(self, *more: str) -> int:
        command = [*self._command, *more]
        return subprocess.run(command, cwd=self._at, env=self._variables, capture_output=True, check=False).returncode


def until(true: Callable[[], bool], log: Path) -> None:
    begin = time.monotonic()
    while not true():
        assert time.monotonic() - begin < PATIENCE_S, log.read_text() if log.exists() else "no log"
        time.sleep(0.05)


def column(database: Path, table: str) -> list[str]:
    if not database.exists():
        return []
    with sqlite3.connect(database, timeout=30) as connection:
        try:
            return sorted(row[0] for row in connection.execute(f"SELECT id FROM {table}"))
        except sqlite3.OperationalError:
            return []


def sent(server: Server, topic: str) -> list[str]:
    """The keys of all messages of a topic."""
    found: list[str] = []
    with PullConsumer("test-reader", name_servers=server.name_servers) as consumer:
        for queue in consumer.queues(topic):
            offset = consumer.min_offset(queue)
            while offset < consumer.max_offset(queue):
                pulled = consumer.pull(queue, offset)
                found += [message.keys[0] for message in pulled.messages]
                offset = pulled.next_offset
    return sorted(found)


@pytest.mark.kill
@pytest.mark.slow
def test_the_shop_of_faststream_is_killed_and_rows_and_messages_agree(server: Server, tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    shop = Program(
        "faststream_shop", tmp_path, ["-m", "faststream", "run", "shop:app"], NAMESRV_ADDR=server.name_servers,
        DATABASE_URL=f"sqlite+aiosqlite:///{database}",
    )  # fmt: skip
    process = shop.start()
    until(lambda: b"waiting for messages" in shop.log.read_bytes(), shop.log)
    until(lambda: b"started successfully" in shop.log.read_bytes(), shop.log)
    orders = [f"o-{number}" for number in range(PAYMENTS)]

    async def pay() -> None:
        async with GantryBroker(server.name_servers, logger=None) as broker:
            for order in orders:
                await broker.publish({"order": order, "cents": 100}, "payments")

    asyncio.run(pay())
    for kill in range(1, KILLS + 1):
        until(lambda wanted=kill * 3: len(column(database, "orders")) >= wanted, shop.log)  # type: ignore[misc]
        process.kill()
        process.wait()
        process = shop.start()
    until(lambda: column(database, "orders") == sorted(orders), shop.log)
    until(lambda: sent(server, "orders-paid") == sorted(orders), shop.log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_a_signal_to_end_lets_the_handler_finish(server: Server, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import asyncio, os\n"
        "from pathlib import Path\n"
        "from faststream import FastStream\n"
        "from gantrymq.faststream import GantryBroker\n"
        'broker = GantryBroker(os.environ["NAMESRV_ADDR"])\n'
        "app = FastStream(broker)\n"
        '@broker.subscriber("orders", group="shipping")\n'
        "async def ship(order: str):\n"
        '    Path("begun").write_text(order)\n'
        "    await asyncio.sleep(1)\n"
        '    Path("ended").write_text(order)\n'
    )
    command = [sys.executable, "-m", "faststream", "run", "app:app"]
    variables = {**os.environ, "NAMESRV_ADDR": server.name_servers, "PYTHONPATH": str(EXAMPLES.parent / "src")}
    log = tmp_path / "app.log"
    with log.open("ab") as said:
        process = subprocess.Popen(
            tied(command), cwd=tmp_path, env=variables, stdout=said, stderr=said, start_new_session=True
        )
    until(lambda: b"started successfully" in log.read_bytes(), log)
    with Producer("test", name_servers=server.name_servers) as producer:
        producer.send(Message("orders", "o-1"))
    until((tmp_path / "begun").exists, log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert (tmp_path / "ended").read_text() == "o-1"


@pytest.mark.kill
@pytest.mark.slow
def test_a_celery_task_starts_if_and_only_if_the_row_committed(server: Server, tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    variables = {
        "NAMESRV_ADDR": server.name_servers,
        "DATABASE_URL": f"sqlite:///{database}",
        "CELERY_BROKER": f"sqla+sqlite:///{tmp_path / 'celery.db'}",
    }
    pay = Program("celery_shop", tmp_path, ["pay.py"], **variables)
    assert pay.run("o-1") == 0
    assert pay.run("o-2", "decline") == 1
    handover = Program("celery_shop", tmp_path, ["handover.py"], **variables)
    worker = Program(
        "celery_shop", tmp_path, ["-m", "celery", "-A", "tasks", "worker", "--pool", "solo", "-l", "INFO"], **variables
    )
    its_process = worker.start()
    # SQL as Celery's broker is for tests: kombu's worker ends when another process makes its queue at the same moment.
    until(lambda: b" ready." in worker.log.read_bytes(), worker.log)
    at_work = [handover.start(), its_process]
    until(lambda: column(database, "parcels") == ["o-1"], worker.log)
    at_work[0].kill()  # before its progress is stored, which is every 5 s: o-1 is handed over again
    at_work[0].wait()
    at_work[0] = handover.start()
    assert pay.run("o-3") == 0
    until(lambda: column(database, "parcels") == ["o-1", "o-3"], worker.log)
    until(lambda: worker.log.read_bytes().count(b"was done already") >= 1, worker.log)
    for process in at_work:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert column(database, "orders") == ["o-1", "o-3"]
    assert len(column(database, "tasks_done")) == 2


def test_the_examples_are_short() -> None:
    for example in ("faststream_shop", "celery_shop"):
        for path in (EXAMPLES / example).glob("*.py"):
            assert len(path.read_text().splitlines()) < 100, path


@pytest.mark.slow
def test_the_tests_of_the_faststream_shop_pass() -> None:
    shop = EXAMPLES / "faststream_shop"
    paths = os.pathsep.join([str(EXAMPLES.parent / "src"), str(shop)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(shop)]
    done = subprocess.run(command, cwd=shop, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
