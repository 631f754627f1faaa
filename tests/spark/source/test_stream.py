"""Where a micro-batch ends, with a broker in a dict and without Spark."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows

from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.offsets import from_tree
from gantrymq.spark.options.bounds import Edge
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.source.planning import Planner
from gantrymq.spark.source.stream import StreamReader
from tests.spark.fakes import START_MS, FakeBroker, SteppedClock, away

Q0, Q1 = MessageQueue("orders", "b", 0), MessageQueue("orders", "b", 1)
LONG_MS = 3_600_000


class Stream:
    """A stream reader, and the position up to which Spark has come."""

    def __init__(self, broker: FakeBroker, **settings: Any) -> None:
        chosen = SourceSettings("h:1", topics=("orders",), starting=Edge.EARLIEST, poll_interval_ms=0, **settings)
        self.reader = StreamReader(chosen, ("body",))
        self.reader._planner = Planner(chosen, broker, SteppedClock(), SystemRng(1))
        self.at = self.reader.initialOffset()

    def batch(self, limit: ReadLimit | None = None) -> dict[MessageQueue, int]:
        """The positions after the next batch."""
        self.at = self.reader.latestOffset(self.at, limit or self.reader.getDefaultReadLimit())
        return from_tree(self.at["positions"], "test")


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.fill(Q0, 10)
    made.fill(Q1, 20)
    return made


def test_a_batch_waits_for_enough_messages(broker: FakeBroker) -> None:
    stream = Stream(broker, min_offsets_per_trigger=10, max_trigger_delay_ms=LONG_MS)
    assert isinstance(stream.reader.getDefaultReadLimit(), ReadMinRows)
    assert stream.batch() == {Q0: 10, Q1: 20}, "the first batch of a run does not wait"
    broker.fill(Q0, 9)
    assert stream.batch() == {Q0: 10, Q1: 20}
    broker.fill(Q1, 1)
    assert stream.batch() == {Q0: 19, Q1: 21}


def test_nobody_waits_longer_than_the_delay_or_with_the_trigger_once(broker: FakeBroker) -> None:
    stream = Stream(broker, min_offsets_per_trigger=10, max_trigger_delay_ms=0)
    stream.batch()
    broker.fill(Q0, 1)
    assert stream.batch() == {Q0: 11, Q1: 20}
    stream = Stream(broker, min_offsets_per_trigger=10, max_trigger_delay_ms=LONG_MS)
    stream.batch()
    broker.fill(Q0, 1)
    assert stream.batch(ReadAllAvailable()) == {Q0: 12, Q1: 20}
    broker.fill(Q0, 1)
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.batch() == {Q0: 13, Q1: 20}


def test_a_new_queue_is_noted_before_the_wait(broker: FakeBroker) -> None:
    """Otherwise a restart during the wait would forget where its reading began."""
    stream = Stream(broker, min_offsets_per_trigger=10, max_trigger_delay_ms=LONG_MS, discovery_interval_ms=0)
    stream.batch()
    new = MessageQueue("orders", "c", 0)
    broker.fill(new, 1)
    assert stream.batch() == {Q0: 10, Q1: 20, new: 1}


def test_both_limits(broker: FakeBroker) -> None:
    stream = Stream(broker, min_offsets_per_trigger=5, max_offsets_per_trigger=6, max_trigger_delay_ms=LONG_MS)
    assert isinstance(stream.reader.getDefaultReadLimit(), ReadMaxRows)
    assert sum(stream.batch().values()) <= 6


def test_a_batch_has_about_so_many_bytes(broker: FakeBroker) -> None:
    size = len(broker.logs[Q0][0])
    stream = Stream(broker, max_bytes_per_trigger=15 * size)
    assert stream.reader.getDefaultReadLimit() == ReadMaxBytes(15 * size)
    assert stream.batch() == {Q0: 4, Q1: 9}, "some messages are a byte longer"
    assert stream.batch(ReadAllAvailable()) == {Q0: 10, Q1: 20}, "the trigger once takes everything"
    both = Stream(broker, max_bytes_per_trigger=15 * size, max_offsets_per_trigger=6)
    assert both.reader.getDefaultReadLimit() == ReadMaxRows(6)
    assert sum(both.batch().values()) <= 6
    broker.refusals += away(3)
    assert stream.batch() == {Q0: 10, Q1: 20}


def test_a_query_that_goes_on_waits_for_its_name_servers(broker: FakeBroker) -> None:
    """It failed after three seconds, as a new one with a mistyped address does."""
    stream = Stream(broker)
    stream.batch()
    again = Stream(broker)
    again.at = stream.at
    broker.fill(Q0, 1)
    broker.refusals += away(60)
    assert again.batch() == {Q0: 11, Q1: 20}


@pytest.mark.parametrize("limits", [{}, {"max_offsets_per_trigger": 3}, {"min_offsets_per_trigger": 5}])
def test_a_topic_that_was_made_anew_is_read_from_where_that_was_noticed(
    broker: FakeBroker, limits: dict[str, int]
) -> None:
    """Waiting at the old position would skip all messages until the new queue is as long as the old one was."""
    stream = Stream(broker, fail_on_data_loss=False, read_timeout_ms=5_000, max_trigger_delay_ms=LONG_MS, **limits)
    while stream.batch() != {Q0: 10, Q1: 20}:
        pass
    broker.logs[Q0] = {}
    broker.fill(Q0, 2)
    broker.fill(Q1, 1)
    before = stream.at
    assert stream.batch() == {Q0: 2, Q1: 21}
    assert [str(part.value[0]) for part in stream.reader.partitions(before, stream.at)] == ["orders/b/1 [20, 21)"]
    broker.fill(Q0, 5)
    before = stream.at
    while stream.batch() != {Q0: 7, Q1: 21}:
        pass
    assert str(stream.reader.partitions(before, stream.at)[0].value[0]).startswith("orders/b/0 [2, ")


def test_the_age_of_the_oldest_unread_message_is_reported(broker: FakeBroker) -> None:
    stream = Stream(broker, max_offsets_per_trigger=6)
    positions = stream.batch()
    report = stream.reader.reportLatestOffset()
    assert report is not None
    assert report["positions"] == {"orders": {"b": {"0": 10, "1": 20}}}
    assert report["oldest_unread_ms"] == START_MS + min(positions.values())
    pulls = broker.pulls
    broker.refusals = []
    stream.reader._unread.look(broker, positions, {Q0: 10, Q1: 20})
    assert broker.pulls == pulls, "the same place is asked about once"
    stream.batch(ReadAllAvailable())
    assert (stream.reader.reportLatestOffset() or {})["oldest_unread_ms"] is None


def test_a_broker_that_does_not_answer_costs_only_the_age(broker: FakeBroker) -> None:
    stream = Stream(broker)
    broker.refusals = away(2)
    stream.reader._unread.look(broker, {Q0: 3}, {Q0: 10})
    assert stream.reader._unread.stored_ms is None
