"""The Spark source and the pipelines on Apache's servers."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import gantrymq
from gantrymq import LocalTransactionState, Message, MessageView
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.ready_made.order_event import OrderPaid
from tests.interop.apache import ApacheCluster
from tests.interop.our_client import PATIENT, make_topic

pytestmark = pytest.mark.spark
pytest.importorskip("pyspark", reason="Spark's packages are not installed: pip install 'gantrymq[spark]'")

VERSIONS = ("4.9.7", "5.5.0")
ORDERS = 50


def shown(*rows: str) -> Any:
    """Each of Apache's servers, with its column in the table."""
    return pytest.mark.parametrize(
        "apache",
        [
            pytest.param(version, marks=pytest.mark.feature(*rows, column=f"Apache {version}"), id=version)
            for version in VERSIONS
        ],
        indirect=True,
    )


def options(server: ApacheCluster, topic: str) -> dict[str, str]:
    return {"nameServers": server.name_servers, "subscribe": topic}


class ByBody:
    """Commits what begins with c, rolls back what begins with r; the rest is never decided."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        known = {b"c": LocalTransactionState.COMMIT, b"r": LocalTransactionState.ROLLBACK}
        return known.get(message.body[:1], LocalTransactionState.UNKNOWN)

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


@shown("batch source")
def test_a_batch_holds_what_was_committed(spark: Any, apache: ApacheCluster) -> None:
    topic = make_topic(apache, "SparkBatch", message_type="TRANSACTION")
    bodies = [f"{kind}{number}" for number in range(10) for kind in "cru"]
    with gantrymq.TransactionProducer(
        f"P{topic}", name_servers=apache.name_servers, listener=ByBody(), **PATIENT
    ) as producer:
        for body in bodies:
            sent = producer.send_in_transaction(Message(topic, body, tags="pay", keys=[f"key-{body}"]))
            assert sent.decided == (body[0] != "u"), sent.decision_error
    reader = spark.read.format("rocketmq").options(**options(apache, topic), includeProperties="true")
    rows = reader.load().collect()
    assert sorted(bytes(row["body"]).decode() for row in rows) == [f"c{number}" for number in range(10)]
    assert {row["topic"] for row in rows} == {topic} and {row["tags"] for row in rows} == {"pay"}
    assert all(row["properties"]["UNIQ_KEY"] == row["message_id"] for row in rows)
    ends = Counter(row["queue_id"] for row in rows)
    assert sorted((row["queue_id"], row["queue_offset"]) for row in rows) == sorted(
        (queue, offset) for queue, count in ends.items() for offset in range(count)
    )


@shown("streaming source")
def test_a_stream_goes_on_where_it_was(spark: Any, apache: ApacheCluster, tmp_path: Path) -> None:
    topic = make_topic(apache, "SparkStream")
    got: list[str] = []

    def keep(batch: Any, _number: int) -> None:
        got.extend(bytes(row["body"]).decode() for row in batch.collect())

    with gantrymq.Producer(f"P{topic}", name_servers=apache.name_servers, **PATIENT) as producer:
        for part in range(2):
            for number in range(20):
                producer.send(Message(topic, f"{part}.{number:02}"))
            stream = spark.readStream.format("rocketmq").options(
                **options(apache, topic), startingOffsets="earliest", maxOffsetsPerTrigger="7"
            )
            writer = stream.load().writeStream.foreachBatch(keep).trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            assert query.awaitTermination(240)
            assert sorted(got) == [f"{done}.{number:02}" for done in range(part + 1) for number in range(20)]


@shown("pipeline order-paid", "pipeline reconcile")
def test_the_pipelines(spark: Any, apache: ApacheCluster, tmp_path: Path) -> None:
    """Orders that are paid, some of them sent twice; one that was rolled back; and all of it agrees."""
    from gantrymq.spark.pipelines.ready_made.order_paid import OrderPaidJob, process_topic
    from gantrymq.spark.pipelines.ready_made.reconcile import ReconcileJob, compare, read_orders
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines

    topic = make_topic(apache, "SparkOrders", message_type="TRANSACTION")
    orders = [OrderPaid(f"o-{n:03}", f"u-{n % 7}", 100 * n + 99, 1_767_225_600_000 + n) for n in range(ORDERS)]
    write_orders(tmp_path / "orders.sqlite", orders)
    with gantrymq.TransactionProducer(
        f"P{topic}", name_servers=apache.name_servers, listener=Committed(), **PATIENT
    ) as producer:
        for order in [*orders, *orders[:5]]:
            assert producer.send_in_transaction(order.message(topic)).decided
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    job = OrderPaidJob(name_servers=apache.name_servers, topic=topic, out=out, checkpoint=checkpoint, until_end=True)
    rows = process_topic(spark, job, ProgressLines(None), OsDisk())
    assert rows == {"shipping": ORDERS, "points": ORDERS, "cart": ORDERS, "dead_letters": 0}
    check = ReconcileJob(
        orders_db=str(tmp_path / "orders.sqlite"), tables=out, name_servers=apache.name_servers, topic=topic
    )
    report = compare(spark, check, *read_orders(check))
    assert report.ok and report.paid == ORDERS and report.totals.delivered_twice == 5


class Committed:
    """Every order that is sent was paid."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def write_orders(path: Path, orders: list[OrderPaid]) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE orders (order_id TEXT, user_id TEXT, amount_cents INTEGER, status TEXT)")
        paid = [(order.order_id, order.user_id, order.amount_cents, "PAID") for order in orders]
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", [*paid, ("o-gone", "u-1", 5, "CANCELLED")])
