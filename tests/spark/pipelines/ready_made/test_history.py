"""lifecycle, archive and replay on a real server: what transactions did, and the same messages in another topic."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gantrymq import LocalTransactionState, Message, MessageView, Producer, TransactionProducer
from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.ready_made.lifecycle import Window
from gantrymq.spark.pipelines.ready_made.lifecycle_plot import draw
from tests.kill.server import Server
from tests.spark.test_with_server import begin_topic, options

TOPIC = "Payments"
STEP_SECONDS = 60


class ByBody:
    """Decides by the first letter of the body: commit, rollback, unknown, or unknown until it is asked."""

    def __init__(self) -> None:
        self.asked: Counter[bytes] = Counter()

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return {b"c": LocalTransactionState.COMMIT, b"r": LocalTransactionState.ROLLBACK}.get(
            message.body[:1], LocalTransactionState.UNKNOWN
        )

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        self.asked[message.body[:1]] += 1
        return LocalTransactionState.COMMIT if message.body[:1] == b"l" else LocalTransactionState.UNKNOWN


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("history") / "server", "ASYNC_FLUSH")
    running.start()
    begin_topic(running)
    listener = ByBody()
    with TransactionProducer("payments", name_servers=running.name_servers, listener=listener) as producer:
        for number in range(10):
            for kind in "ccrlu":
                more: dict[str, Any] = {"properties": {"colour": "red"}, "flag": number}
                producer.send_in_transaction(Message(TOPIC, f"{kind}{number}", tags="pay", keys=f"k{number}", **more))
        end = time.monotonic() + STEP_SECONDS
        while listener.asked[b"l"] < 10 or listener.asked[b"u"] < 10:
            assert time.monotonic() < end, f"only {listener.asked} checks"
            time.sleep(0.05)
    yield running
    running.kill()


@pytest.mark.spark
@pytest.mark.kill
def test_the_life_of_transactions(spark: Any, server: Server) -> None:
    from gantrymq.spark.pipelines.ready_made.lifecycle import LifecycleJob, report

    end = time.monotonic() + STEP_SECONDS
    while True:
        windows = report(spark, LifecycleJob(server.name_servers, window="1d"))
        # The answers to the last checks may still be on their way.
        if sum(window.committed for window in windows) == 30 or time.monotonic() > end:
            break
    assert {window.topic for window in windows} == {TOPIC}
    total = {
        name: sum(getattr(one, name) for one in windows)
        for name in ("transactions", "committed", "rolled_back", "checked")
    }
    assert total == {"transactions": 50, "committed": 30, "rolled_back": 10, "checked": 10}
    assert sum(window.open + window.parked for window in windows) == 10
    for window in windows:
        assert window.p50_ms is not None and window.max_ms is not None and 0 <= window.p50_ms <= window.max_ms
    assert ET.fromstring(draw(windows)).tag.endswith("svg")


@pytest.mark.spark
@pytest.mark.kill
def test_an_archive_and_its_replay(spark: Any, server: Server, tmp_path: Path) -> None:
    """Whatever is run again, each message is sent once; a new checkpoint is another replay."""
    from msgspec.structs import replace as replace_job

    from gantrymq.spark.pipelines.ready_made.archive import archive_job
    from gantrymq.spark.pipelines.ready_made.replay import ReplayJob, replay
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
    from gantrymq.spark.pipelines.run.running import Ending, process
    from gantrymq.spark.sink.options import Guarantee

    before = in_topic(spark, server, TOPIC)
    job = archive_job(server.name_servers, TOPIC, f"{tmp_path}/archive", f"{tmp_path}/checkpoint")
    assert process(spark, job, Ending(until_end=True), ProgressLines(None), OsDisk()) == {"messages": len(before)}
    assert process(spark, job, Ending(until_end=True), ProgressLines(None), OsDisk()) == {"messages": len(before)}
    lost = replace_job(job, checkpoint=f"{tmp_path}/checkpoint-2")
    assert process(spark, lost, Ending(until_end=True), ProgressLines(None), OsDisk()) == {"messages": len(before)}
    assert spark.read.parquet(f"{tmp_path}/archive").where(f"topic = '{TOPIC}'").count() == len(before)
    with Producer("other", name_servers=server.name_servers) as producer:
        producer.send(Message("Again", b"first", tags="other"))
    again = ReplayJob(f"{tmp_path}/archive", server.name_servers, "Again", f"{tmp_path}/again", part_rows=20)
    assert replay(spark, again) == len(before)
    assert replay(spark, again) == 0
    (tmp_path / "again" / "done.json").unlink()  # as if it was killed before it could note what it had sent
    assert replay(spark, again) == len(before)
    after = [row for row in in_topic(spark, server, "Again") if row["tags"] != "other"]
    assert Counter(map(content, after)) == Counter(map(content, before))
    old = {row["message_id"]: (row["queue_id"], row["queue_offset"]) for row in before}
    assert Counter(row["REPLAYED_ID"] for row in after) == dict.fromkeys(old, 1)
    places = sorted((row["queue_id"], row["queue_offset"], old[row["REPLAYED_ID"]]) for row in after)
    for queue in {place[2][0] for place in places}:
        of_queue = [place for place in places if place[2][0] == queue]
        assert len({place[0] for place in of_queue}) == 1, "the messages of one queue are in one queue again"
        assert of_queue == sorted(of_queue, key=lambda place: place[2][1]), "and in their order"
    least = replace(again, checkpoint=f"{tmp_path}/least", to_topic="Least", guarantee=Guarantee.AT_LEAST_ONCE)
    assert replay(spark, least) == len(before)
    assert Counter(map(content, in_topic(spark, server, "Least"))) == Counter(map(content, before))
    assert replay(spark, replace(again, checkpoint=f"{tmp_path}/empty", to_ms=5)) == 0
    with pytest.raises(ConfigError, match="has no messages of Other"):
        replay(spark, replace(again, checkpoint=f"{tmp_path}/other", topic="Other"))
    with pytest.raises(ConfigError, match="belongs to a replay with another to_ms"):
        replay(spark, replace(again, to_ms=5))


def in_topic(spark: Any, server: Server, topic: str) -> list[Any]:
    named = options(server) | {"subscribe": topic, "includeProperties": "true"}
    frame = spark.read.format("rocketmq").options(**named).load()
    return frame.select("*", "properties.colour", "properties.REPLAYED_ID").collect()


def content(row: Any) -> tuple[Any, ...]:
    """What a replay keeps."""
    return tuple(
        bytes(row[name]) if name == "body" else row[name] for name in ("body", "tags", "keys", "flag", "colour")
    )


def test_the_picture() -> None:
    nothing = {"committed": 0, "rolled_back": 0, "parked": 0, "open": 0, "checked": 0}
    times = {"p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": 3.0, "max_ms": 4.0}
    windows = [
        Window(topic="a<b", begin_ms=0, transactions=4, **{**nothing, "committed": 3, "open": 1}, **times),
        Window(topic="a<b", begin_ms=60_000, transactions=1, **{**nothing, "open": 1}, **dict.fromkeys(times)),
        Window(topic="c", begin_ms=0, transactions=2, **{**nothing, "rolled_back": 2}, **times),
    ]
    picture = ET.fromstring(draw(windows))
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert "a<b" in texts and "c" in texts and "1970-01-01 00:01 UTC" in texts
    bars = [element for element in picture.iter() if element.tag.endswith("rect")]
    assert len(bars) == 5 + 4  # the legend, and one for each part that is not nothing
    assert ET.fromstring(draw([])).tag.endswith("svg")


@pytest.mark.spark
@pytest.mark.kill
def test_dead_letters_in_a_topic(spark: Any, server: Server) -> None:
    """Each names its place and the reason. A message needs a body, so an empty one becomes a blank."""
    from gantrymq.spark.pipelines.job import DEAD_LETTER_SCHEMA, TopicTarget
    from gantrymq.spark.pipelines.targets.databases import Databases
    from gantrymq.spark.pipelines.targets.port import dead_letter_columns
    from gantrymq.spark.pipelines.targets.writers import open_writer

    writer = open_writer(
        TopicTarget(topic="Rejected"), "dead_letters", dead_letter_columns(), options(server), OsDisk(), Databases()
    )
    letters = [("T", "broker-a", 0, offset, body, "no order") for offset, body in enumerate((b"junk", b""))]
    try:
        assert writer.add("q", 0, spark.createDataFrame(letters, DEAD_LETTER_SCHEMA).toArrow()) == 2
    finally:
        writer.close()
    frame = spark.read.format("rocketmq").options(
        **options(server) | {"subscribe": "Rejected"}, includeProperties="true"
    )
    rows = frame.load().select("body", "properties.DEAD_LETTER_PLACE", "properties.DEAD_LETTER_REASON").collect()
    assert sorted((bytes(row[0]), row[1], row[2]) for row in rows) == [
        (b" ", "T/broker-a/0/1", "no order"), (b"junk", "T/broker-a/0/0", "no order"),
    ]  # fmt: skip
