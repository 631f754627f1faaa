"""The comparison is honest: it names exactly the orders that were dropped, doubled or invented."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.pipelines.ready_made.order_sources import OrderColumns, orders_in
from gantrymq.spark.pipelines.ready_made.reconcile import ReconcileJob, Report, read_orders
from tests.spark.fakes import FakeBroker
from tests.spark.log_server import LogServer
from tests.spark.pipelines.ready_made.test_order_paid import TOPIC, deliver, event, process
from tests.sql.databases import Place, database_server, postgresql

__all__ = ["database_server", "postgresql"]

ORDERS = 60


def write_orders(path: Path) -> None:
    """Orders 0 to 59 are paid, 100 to 104 rolled back."""
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE orders (order_id TEXT PRIMARY KEY, user_id TEXT, amount_cents INTEGER, status TEXT)"
        )
        for number in [*range(ORDERS), *range(100, 105)]:
            one, status = event(number), "PAID" if number < ORDERS else "CANCELLED"
            database.execute(
                "INSERT INTO orders VALUES (?, ?, ?, ?)", (one.order_id, one.user_id, one.amount_cents, status)
            )


def job_at(where: Path, address: str = "127.0.0.1:1", **changes: Any) -> ReconcileJob:
    settings = {"orders_db": f"{where}/orders.sqlite", "tables": f"{where}/out", **changes}
    return ReconcileJob(name_servers=address, topic=TOPIC, **settings)


def test_orders_by_status(tmp_path: Path) -> None:
    write_orders(tmp_path / "orders.sqlite")
    statuses, paid = read_orders(job_at(tmp_path))
    assert statuses == {"CANCELLED": 5, "PAID": 60}
    assert len(paid) == 60


@pytest.mark.parametrize("name", ["order", 'the "orders" of 2026', "x; DROP TABLE orders"])
def test_any_name_of_a_table_is_quoted(tmp_path: Path, name: str) -> None:
    write_orders(tmp_path / "orders.sqlite")
    quoted = name.replace('"', '""')
    with sqlite3.connect(tmp_path / "orders.sqlite") as database:
        database.execute(f"CREATE TABLE \"{quoted}\" AS SELECT * FROM orders WHERE order_id < 'o-0002'")
    assert read_orders(job_at(tmp_path, orders_table=name))[0] == {"PAID": 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"orders_db": "nowhere.sqlite"}, "there is no order database"),
        ({"orders_table": "x; DROP"}, "needs a table x; DROP with the columns order_id"),
        ({"orders_table": ""}, "--orders-table is empty"),
        ({"columns": OrderColumns(user_id="customer")}, "with the columns order_id, customer, amount_cents, status"),
        ({"orders_db": "postgresql://127.0.0.1:1/x?connect_timeout=2"}, "cannot be read: connection"),
    ],
)
def test_a_database_that_cannot_be_read(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    write_orders(tmp_path / "orders.sqlite")
    with pytest.raises(ConfigError, match=message):
        read_orders(job_at(tmp_path, **changes))


def test_orders_in_postgresql(postgresql: Place, tmp_path: Path) -> None:
    postgresql.execute(
        "CREATE SCHEMA shop", 'CREATE TABLE shop."order" (id bigint, customer text, cents numeric, state text)',
        """INSERT INTO shop."order" VALUES (1, 'u-1', 5, 'Paid'), (2, 'u-2', 6, 'open')""",
    )  # fmt: skip
    columns = OrderColumns(order_id="id", user_id="customer", amount_cents="cents", status="state")
    job = job_at(tmp_path, orders_db=postgresql.dsn, orders_table="shop.order", columns=columns)
    statuses, paid = read_orders(job)
    assert statuses == {"Paid": 1, "open": 1}
    assert paid.to_pylist() == [{"order_id": "1", "paid_user": "u-1", "paid_cents": 5}]


def test_orders_in_parquet(tmp_path: Path) -> None:
    orders = {"id": [1, 2], "customer": ["u-1", "u-2"], "cents": [5, 6], "state": ["Paid", "open"]}
    (tmp_path / "orders").mkdir()
    pq.write_table(pa.table(orders), tmp_path / "orders" / "part.parquet")
    columns = OrderColumns(order_id="id", user_id="customer", amount_cents="cents", status="state")
    job = job_at(tmp_path, orders_db=f"{tmp_path}/orders", columns=columns)
    statuses, paid = read_orders(job)
    assert statuses == {"Paid": 1, "open": 1}
    assert paid.to_pylist() == [{"order_id": "1", "paid_user": "u-1", "paid_cents": 5}]
    with pytest.raises(ConfigError, match="there is no column user_id; it has id, customer, cents, state"):
        read_orders(job_at(tmp_path, orders_db=f"{tmp_path}/orders", columns=OrderColumns(order_id="id")))


@pytest.mark.spark
def test_orders_in_a_data_frame(spark: Any) -> None:
    frame = spark.createDataFrame(
        [(1, "u-1", 5, "PAID"), (2, "u-2", 6, None)], "id int, customer string, cents int, state string"
    )
    columns = OrderColumns(order_id="id", user_id="customer", amount_cents="cents", status="state")
    statuses, paid = orders_in(frame, columns)
    assert statuses == {"None": 1, "PAID": 1}
    assert paid.to_pylist() == [{"order_id": "1", "paid_user": "u-1", "paid_cents": 5}]


@pytest.mark.parametrize("text", ["order_id", "id=order_id", "order_id="])
def test_columns_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="write for example order_id=id,user_id=customer"):
        OrderColumns.of(text)
    assert OrderColumns.of("order_id=id, status=state") == OrderColumns(order_id="id", status="state")


@pytest.fixture(scope="module")
def world(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, LogServer]]:
    """Everything processed and nothing wrong, except that producers repeated themselves."""
    where = tmp_path_factory.mktemp("reconcile")
    write_orders(where / "orders.sqlite")
    with LogServer(FakeBroker(answers_at_most=5000)) as server:
        for number in range(3):
            server.broker.logs[MessageQueue(TOPIC, "broker-a", number)] = {}
        deliver(server.broker, [*range(ORDERS), 3, 4])
        process(spark, server, where)
        yield where, server


def reconciled(spark: Any, job: ReconcileJob) -> Report:
    from gantrymq.spark.pipelines.ready_made.reconcile import compare

    return compare(spark, job, *read_orders(job))


@pytest.mark.spark
def test_all_agree(spark: Any, world: tuple[Path, LogServer]) -> None:
    where, server = world
    report = reconciled(spark, job_at(where, server.address))
    assert report.ok
    assert report.paid == 60
    assert report.topic.rows == 62 and report.topic.doubled == ["o-0003", "o-0004"]
    assert {name: found.rows for name, found in report.tables.items()} == {"shipping": 60, "points": 60, "cart": 60}
    assert report.totals.delivered_twice == 2
    assert not reconciled(spark, job_at(where, server.address, strict=True)).ok


def tampered(where: Path, name: str, change: Any) -> Any:
    """Rewrite the files of a table by ``change`` (rows in, rows out); returns what undoes it."""
    (path,) = (where / "out" / name).glob("*.parquet")
    before = path.read_bytes()
    original = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(original.to_pylist()), schema=original.schema), path)
    return lambda: path.write_bytes(before)


@pytest.mark.spark
def test_what_was_dropped_doubled_and_invented_is_named(spark: Any, world: tuple[Path, LogServer]) -> None:
    where, server = world

    def shipping(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [row for row in rows if row["order_id"] != "o-0007"]
        doubled = next(row for row in rows if row["order_id"] == "o-0011")
        return [*kept, doubled, {**doubled, "order_id": "o-9999"}, {**doubled, "order_id": "o-0102"}]

    def points(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "points": row["points"] + (row["order_id"] == "o-0020")} for row in rows]

    undo = [tampered(where, "shipping", shipping), tampered(where, "points", points)]
    try:
        report = reconciled(spark, job_at(where, server.address))
    finally:
        for step in undo:
            step()
    found = report.tables["shipping"]
    assert not report.ok
    assert (found.missing, found.doubled, found.phantom) == (["o-0007"], ["o-0011"], ["o-0102", "o-9999"])
    assert report.tables["points"].wrong == ["o-0020"]
    cart = report.tables["cart"]
    assert (cart.missing, cart.doubled, cart.phantom, cart.wrong) == ([], [], [], [])
    totals = report.totals
    assert (totals.missing, totals.doubled, totals.phantom, totals.wrong) == (1, 1, 2, 1)


@pytest.mark.spark
def test_the_topic_is_compared_too(spark: Any, world: tuple[Path, LogServer]) -> None:
    """A rolled-back order in the topic, an order that never arrived, and a message that is no event."""
    where, server = world
    queue = MessageQueue(TOPIC, "broker-a", 0)
    with sqlite3.connect(where / "orders.sqlite") as database:
        database.execute("INSERT INTO orders VALUES ('o-7777', 'u', 1, 'paid')")
    log = dict(server.broker.logs[queue])
    server.broker.append(queue, event(101).to_body())
    server.broker.append(queue, b"junk")
    server.broker.append(queue, event(102).to_body() + event(103).to_body())  # order-paid takes neither of them
    try:
        report = reconciled(spark, job_at(where, server.address))
    finally:
        server.broker.logs[queue] = log
        with sqlite3.connect(where / "orders.sqlite") as database:
            database.execute("DELETE FROM orders WHERE order_id = 'o-7777'")
    assert (report.topic.missing, report.topic.phantom) == (["o-7777"], ["o-0101"])
    assert report.unreadable == [f"{TOPIC}/broker-a/0/{len(log) + behind}" for behind in (1, 2)]
    assert report.totals.missing == 1 and report.totals.phantom == 1


@pytest.mark.spark
def test_the_command(spark: Any, world: tuple[Path, LogServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's exit status and its report, on the session that is already running."""
    from gantrymq.spark.pipelines.ready_made import reconcile

    where, server = world
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    arguments = [
        "--orders-db", f"{where}/orders.sqlite", "--tables", f"{where}/out", "--name-servers", server.address,
        "--topic", TOPIC, "--json", f"{where}/report.json",
    ]  # fmt: skip
    assert reconcile.main(arguments) == 0
    report = json.loads((where / "report.json").read_text())
    assert report["ok"] is True and report["tables"]["points"]["missing"] == []
    assert reconcile.main([*arguments, "--strict"]) == 1
    assert reconcile.main([*arguments, "--orders-db", "nowhere"]) == 2
