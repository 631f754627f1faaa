"""The Spark sink on Apache's servers: at_least_once works, and exactly_once is refused with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gantrymq import MessageView
from gantrymq.message import properties
from tests.interop.apache import ApacheCluster
from tests.interop.our_client import make_topic, until
from tests.interop.test_spark_source import shown
from tests.spark.sink.topics import messages

pytestmark = pytest.mark.spark
pytest.importorskip("pyspark", reason="Spark's packages are not installed: pip install 'gantrymq[spark]'")

ROWS = 1500


def options(server: ApacheCluster, topic: str, guarantee: str = "at_least_once") -> dict[str, str]:
    return {"nameServers": server.name_servers, "topic": topic, "deliveryGuarantee": guarantee}


def all_messages(server: ApacheCluster, topic: str, count: int) -> list[MessageView]:
    """What is in a topic as soon as there are so many. Apache's broker answers a send before consumers can see it."""
    until(lambda: len(messages(server.name_servers, topic)) >= count, f"{count} messages in {topic}")
    return messages(server.name_servers, topic)


@shown("sink, at_least_once")
def test_rows_are_messages(spark: Any, apache: ApacheCluster) -> None:
    topic = make_topic(apache, "SparkSink")
    frame = spark.range(0, ROWS, 1, 2).selectExpr(
        "CAST(id AS STRING) AS body", "'paid' AS tags", "array(concat('k', id), 'x') AS keys",
        "CAST(id % 3 AS STRING) AS ordering_key", "map('shop', 'berlin') AS properties", "CAST(id AS INT) AS flag",
    )  # fmt: skip
    frame.write.format("rocketmq").mode("append").options(**options(apache, topic)).save()
    found = all_messages(apache, topic, ROWS)
    assert sorted(int(message.body) for message in found) == list(range(ROWS))
    one = next(message for message in found if message.body == b"17")
    assert (one.tags, one.keys, one.properties["shop"], one.flag) == ("paid", ["k17", "x"], "berlin", 17)
    assert one.properties[properties.SHARDING_KEY] == "2"
    queues = {(message.properties[properties.SHARDING_KEY], message.queue.queue_id) for message in found}
    assert len(queues) == 3, "the messages of one ordering key are in one queue"


@shown("sink, at_least_once")
def test_a_stream_goes_on_where_it_was(spark: Any, apache: ApacheCluster, tmp_path: Path) -> None:
    topic, source = make_topic(apache, "SparkSinkStream"), str(tmp_path / "source")
    for run in range(2):
        spark.range(0, 100, 1, 2).selectExpr(f"concat(id, '/{run}') AS body").write.mode("append").text(source)
        query = (
            spark.readStream.schema("body string").format("text").load(source)
            .writeStream.format("rocketmq").options(**options(apache, topic))
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(240)
    bodies = sorted(message.body.decode() for message in all_messages(apache, topic, 200))
    assert bodies == sorted(f"{number}/{run}" for number in range(100) for run in range(2))


@shown("sink, at_least_once")
def test_exactly_once_says_what_to_do(spark: Any, apache: ApacheCluster) -> None:
    topic = make_topic(apache, "SparkSinkOnce", message_type="TRANSACTION")
    with pytest.raises(Exception, match="deliveryGuarantee=at_least_once"):
        frame = spark.range(3).selectExpr("CAST(id AS STRING) AS body")
        frame.write.format("rocketmq").mode("append").options(**options(apache, topic, "exactly_once")).save()
    assert messages(apache.name_servers, topic) == []
