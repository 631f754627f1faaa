"""Programs of the documents run as they are written, against a cluster in this process.

``tests/examples`` runs the first program of README.md and docs/start.md, ``tests/sql`` those of docs/sql.md and
docs/inbox.md. ``snippets.py`` is the table of all.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gantrymq import LitePullConsumer, LocalTransactionState, Message, PushConsumer, TransactionProducer
from gantrymq.cli.commands import app
from gantrymq.testing import LocalCluster

from .blocks import ROOT, block_with, blocks
from .commands import commands_of
from .programs import bodies, run

SHOP = ROOT / "examples" / "shop_with_tests"
PATIENCE_S = 60.0


# ---- docs/client.md


def test_the_first_program_of_the_client(gantry: LocalCluster) -> None:
    gantry.create_topic("orders-paid")
    run(block_with("docs/client.md", "send_ordered"))
    assert bodies(gantry, "orders-paid") == ["o-1"]


def test_lite_pull_polls_and_commits(gantry: LocalCluster) -> None:
    """docs/client.md: `running` ends the loop behind the first message, and sends until then."""
    gantry.create_topic("orders-paid")
    handled: list[bytes] = []

    def running() -> bool:
        if not handled:
            gantry.send(Message("orders-paid", b"o-1"))
        return not handled

    run(
        block_with("docs/client.md", "consumer.poll()"), running=running, LitePullConsumer=LitePullConsumer,
        handle=lambda message: handled.append(message.body),
    )  # fmt: skip
    assert set(handled) == {b"o-1"}


def test_a_simple_consumer_receives_and_acknowledges(gantry: LocalCluster) -> None:
    """docs/client.md: `running` ends the loop behind the first message, and sends until then."""
    gantry.create_topic("scans")
    handled: list[bytes] = []

    def running() -> bool:
        if not handled:
            gantry.send(Message("scans", b"s-1"))
        return not handled

    run(
        block_with("docs/client.md", "consumer.receive"), running=running,
        handle=lambda message: handled.append(message.body),
    )  # fmt: skip
    assert set(handled) == {b"s-1"}


class Database:
    """`database` of docs/client.md: a transaction is one of SQLite."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self.transaction() as rows:
            rows.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, paid INTEGER DEFAULT 0)")
            rows.execute("CREATE TABLE outcomes (id TEXT PRIMARY KEY, outcome TEXT)")
            rows.execute("INSERT INTO orders (id) VALUES ('o-1')")

    @contextmanager
    def transaction(self) -> Any:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()


def test_the_listener_with_a_table_of_outcomes(gantry: LocalCluster, tmp_path: Path) -> None:
    """docs/client.md: what the checker made final cannot be paid any more."""
    gantry.create_topic("orders-paid")
    database = Database(tmp_path / "shop.db")
    found = run(
        block_with("docs/client.md", "class Orders"), database=database,
        LocalTransactionState=LocalTransactionState,
    )  # fmt: skip
    orders = found["Orders"]()
    with TransactionProducer("shop", name_servers=gantry.name_servers, listener=orders) as producer:
        sent = producer.send_in_transaction(Message("orders-paid", b"o-1"), "o-1")
    assert sent.state is LocalTransactionState.COMMIT
    assert bodies(gantry, "orders-paid") == ["o-1"]
    (message,) = gantry.messages("orders-paid")
    assert orders.check_local_transaction(message) is LocalTransactionState.COMMIT
    with database.transaction() as rows:
        rows.execute("DELETE FROM outcomes")
    assert orders.check_local_transaction(message) is LocalTransactionState.ROLLBACK
    with pytest.raises(sqlite3.IntegrityError):
        orders.execute_local_transaction(message, "o-1")


# ---- docs/doctor.md, docs/recipes.md, docs/sql.md


def test_doctor_as_a_library(gantry: LocalCluster) -> None:
    """docs/doctor.md."""
    run(block_with("docs/doctor.md", "look_at_cluster"))


def test_the_progress_of_a_group(gantry: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/recipes.md."""
    gantry.create_topic("orders-paid")
    with PushConsumer("orders-tables", name_servers=gantry.name_servers, listener=lambda messages: None).subscribe(
        "orders-paid"
    ):
        gantry.send(Message("orders-paid", b"o-1"))
        gantry.settle()
    run(block_with("docs/recipes.md", "Admin("))
    assert capsys.readouterr().out.splitlines()[0] == "0 messages behind"


def test_the_statements_for_a_migration() -> None:
    """docs/sql.md."""
    ((program, *words),) = commands_of(block_with("docs/sql.md", "gantry sql ddl").text)
    assert program == "gantry"
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and "CREATE TABLE" in done.output


# ---- docs/faststream.md


async def true_in_time(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.02)


def test_the_first_program_of_faststream(gantry: LocalCluster) -> None:
    """docs/faststream.md."""
    gantry.create_topic("orders-paid")
    gantry.create_topic("orders-shipped")
    found = run(block_with("docs/faststream.md", "app.after_startup"))

    async def until_shipped() -> None:
        running = asyncio.create_task(found["app"].run())
        await true_in_time(lambda: running.done() or bool(bodies(gantry, "orders-shipped")))
        found["app"].exit()
        await running

    asyncio.run(until_shipped())
    assert bodies(gantry, "orders-shipped") == ["o-1 is on its way"]


@pytest.mark.filterwarnings(r"ignore:\s*Error:RuntimeWarning")
def test_the_test_client_of_faststream(gantry: LocalCluster) -> None:
    """docs/faststream.md. FastStream reads the source of its caller, and warns because it is a page here."""
    run(block_with("docs/faststream.md", "TestGantryBroker"))


def test_the_router_of_fastapi(gantry: LocalCluster) -> None:
    """docs/faststream.md: a POST sends, and the subscriber of the same program gets it."""
    from fastapi.testclient import TestClient

    gantry.create_topic("orders-paid")
    found = run(block_with("docs/faststream.md", "GantryRouter"))
    with TestClient(found["web"]) as client:
        assert client.post("/orders/o-1").status_code == 200
    assert bodies(gantry, "orders-paid") == ['{"id":"o-1"}']


# ---- docs/testing.md, docs/start.md

PREAMBLE = """
import pytest
from gantrymq import *
from shop import Payments, Shipping
from test_shop import DiesBehindTheRow

@pytest.fixture(autouse=True)
def surroundings(gantry, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", gantry.name_servers)
    DiesBehindTheRow.gantry = gantry

"""


@pytest.mark.slow
def test_the_tests_of_the_pages_pass(tmp_path: Path) -> None:
    """docs/testing.md and docs/start.md, in a directory with the shop that they import."""
    shutil.copy(SHOP / "shop.py", tmp_path)
    shutil.copy(SHOP / "test_shop.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n" + block_with("docs/testing.md", "gantry_virtual_time = ").text)
    pages = {"docs/testing.md", "docs/start.md"}
    shown = [block for block in blocks() if block.page in pages and "def test_" in block.text]
    assert len(shown) == 4
    for number, block in enumerate(shown):
        (tmp_path / f"test_page_{number}.py").write_text(PREAMBLE + block.text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *sorted(tmp_path.glob("test_page_*.py"))],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(shown)} passed" in done.stdout


def test_a_cluster_without_pytest() -> None:
    """docs/testing.md."""
    run(block_with("docs/testing.md", "with LocalCluster("))


@pytest.mark.gantry(virtual_time=True)
def test_the_door_of_a_test(gantry: LocalCluster) -> None:
    """docs/testing.md."""
    gantry.create_topic("orders-paid")
    run(
        block_with("docs/testing.md", "gantry.door("), gantry=gantry, Message=Message,
        LocalTransactionState=LocalTransactionState,
    )  # fmt: skip
