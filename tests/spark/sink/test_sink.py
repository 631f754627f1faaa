"""The sink in a real Spark, on a real ``gantry server``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.message import properties
from tests.kill.server import Server
from tests.spark.sink.topics import bodies, messages, open_halves

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

GUARANTEES = ["at_least_once", "exactly_once"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"), "ASYNC_FLUSH")
    running.start()
    yield running
    running.kill()


def options(server: Server, topic: str, guarantee: str = "exactly_once", **more: str) -> dict[str, str]:
    return {"nameServers": server.name_servers, "topic": topic, "deliveryGuarantee": guarantee, **more}


def numbers(spark: Any, count: int, partitions: int = 2) -> Any:
    return spark.range(0, count, 1, partitions).selectExpr("CAST(id AS STRING) AS body")


def texts(count: int) -> list[str]:
    return sorted(str(number) for number in range(count))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_each_row_of_a_batch_is_a_message(spark: Any, server: Server, guarantee: str) -> None:
    topic = f"Batch-{guarantee}"
    frame = numbers(spark, 2000).selectExpr(
        "CAST(body AS BINARY) AS body", "'paid' AS tags", "array(concat('k', body), 'x') AS keys",
        "CAST(CAST(body AS INT) % 3 AS STRING) AS ordering_key",
        "map('shop', 'berlin', 'TAGS', 'ignored') AS properties",
    )  # fmt: skip
    frame.write.format("rocketmq").mode("append").options(**options(server, topic, guarantee)).save()
    found = messages(server.name_servers, topic)
    assert sorted(message.body.decode() for message in found) == texts(2000)
    one = next(message for message in found if message.body == b"17")
    assert (one.tags, one.keys, one.properties["shop"]) == ("paid", ["k17", "x"], "berlin")
    assert one.properties[properties.SHARDING_KEY] == "2"
    queues = {(message.properties[properties.SHARDING_KEY], message.queue.queue_id) for message in found}
    assert len(queues) == 3
    assert len({message.message_id for message in found}) == 2000
    assert open_halves(server.name_servers) == 0


def test_rows_choose_their_topics(spark: Any, server: Server) -> None:
    frame = numbers(spark, 30).selectExpr("body", "IF(body % 3 = 0, NULL, concat('Chosen-', body % 3)) AS topic")
    frame.write.format("rocketmq").mode("append").options(**options(server, "Chosen-0")).save()
    for rest in range(3):
        assert sorted(bodies(server.name_servers, f"Chosen-{rest}")) == sorted(map(str, range(rest, 30, 3)))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_namespace(spark: Any, server: Server, guarantee: str) -> None:
    """Also before the topics that rows name, and before the group and its control topic."""
    frame = numbers(spark, 30).selectExpr("body", "IF(body % 2 = 0, NULL, 'Odd') AS topic")
    chosen = options(server, "Even", guarantee, namespace=guarantee)
    frame.write.format("rocketmq").mode("append").options(**chosen).save()
    for rest, topic in enumerate(("Even", "Odd")):
        assert sorted(bodies(server.name_servers, f"{guarantee}%{topic}")) == sorted(map(str, range(rest, 30, 2)))
        assert bodies(server.name_servers, topic) == []
    decisions = messages(server.name_servers, f"{guarantee}%gantry-spark-sink-decisions")
    assert bool(decisions) is (guarantee == "exactly_once")
    assert open_halves(server.name_servers, f"{guarantee}%gantry-spark-sink") == 0


def test_insert_into_a_table(spark: Any, server: Server) -> None:
    numbers(spark, 20).createOrReplaceTempView("to_insert")
    parts = ", ".join(f"'{name}' = '{value}'" for name, value in options(server, "Inserted").items())
    spark.sql("CREATE TABLE sink_table (body STRING) USING rocketmq")
    try:
        spark.sql(f"INSERT INTO sink_table WITH ({parts}) SELECT body FROM to_insert")
    finally:
        spark.sql("DROP TABLE sink_table")
    assert sorted(bodies(server.name_servers, "Inserted")) == texts(20)


def test_a_second_write_with_the_same_name_adds_nothing(spark: Any, server: Server) -> None:
    for _ in range(2):
        chosen = options(server, "Named", writeId="replay of May")
        numbers(spark, 50).write.format("rocketmq").mode("append").options(**chosen).save()
    assert sorted(bodies(server.name_servers, "Named")) == texts(50)


def test_delayed_rows_are_sent_one_by_one(spark: Any, server: Server) -> None:
    frame = numbers(spark, 4).selectExpr("body", "IF(body = '3', 3600000L, NULL) AS delay_ms")
    frame.write.format("rocketmq").mode("append").options(**options(server, "Late", "at_least_once")).save()
    assert sorted(bodies(server.name_servers, "Late")) == texts(3)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_stream_over_restarts(spark: Any, server: Server, tmp_path: Path, guarantee: str) -> None:
    """Append: each file is a batch. The second query goes on where the first one ended."""
    topic, source = f"Stream-{guarantee}", str(tmp_path / "source")
    for run in range(2):
        numbers(spark, 100, 4).selectExpr(f"concat(body, '/{run}') AS body").write.mode("append").text(source)
        query = (
            spark.readStream.schema("body string").option("maxFilesPerTrigger", 2).format("text").load(source)
            .writeStream.format("rocketmq").options(**options(server, topic, guarantee))
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
    expected = [f"{number}/{run}" for number in range(100) for run in range(2)]
    assert sorted(bodies(server.name_servers, topic)) == sorted(expected)


def test_output_mode_complete_adds_the_whole_result_each_time(spark: Any, server: Server, tmp_path: Path) -> None:
    source = str(tmp_path / "source")
    numbers(spark, 6, 2).write.text(source)
    counts = (
        spark.readStream.schema("body string").option("maxFilesPerTrigger", 1).format("text").load(source)
        .groupBy().count().selectExpr("CAST(count AS STRING) AS body")
    )  # fmt: skip
    query = (
        counts.writeStream.format("rocketmq").outputMode("complete").options(**options(server, "Complete"))
        .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    assert Counter(bodies(server.name_servers, "Complete")) == {"3": 1, "6": 1}


def refused(frame: Any, chosen: dict[str, str], mode: str = "append") -> str:
    with pytest.raises(Exception) as raised:
        frame.write.format("rocketmq").mode(mode).options(**chosen).save()
    return str(raised.value)


def test_errors_say_what_to_do(spark: Any, server: Server) -> None:
    frame = numbers(spark, 3)
    assert 'use .mode("append")' in refused(frame, options(server, "T"), "overwrite")
    assert "did you mean topic?" in refused(frame, options(server, "T", topics="T"))
    assert "filter such rows out" in refused(frame.selectExpr("NULLIF(body, '1') AS body"), options(server, "Refused"))
    assert bodies(server.name_servers, "Refused") == []
