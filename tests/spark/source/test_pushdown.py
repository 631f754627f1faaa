from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gantrymq.message.queues import MessageQueue
from gantrymq.spark.source.partitions import QueueRange
from gantrymq.spark.source.pushdown import Narrowing, is_switched_on, narrowed

pytest.importorskip("pyspark")
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

QUEUE = MessageQueue("orders", "broker-a", 3)
START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


def at_time(queue: MessageQueue, timestamp_ms: int) -> int:
    """Message N is stored N ms after START."""
    return min(max(timestamp_ms - START_MS, 0), 100)


def test_what_is_not_understood_limits_nothing() -> None:
    others = [
        IsNotNull(("topic",)), Not(EqualTo(("topic",), "orders")), StringStartsWith(("topic",), "o"),
        EqualTo(("keys",), "k"), EqualTo(("properties", "topic"), "x"), GreaterThan(("reconsume_times",), 3),
    ]  # fmt: skip
    assert narrowed(others) == Narrowing()


def test_queues() -> None:
    one = narrowed([EqualTo(("topic",), "orders"), In(("queue_id",), (3, 4)), EqualTo(("broker_name",), "broker-a")])
    assert one.includes(QUEUE)
    assert not one.includes(MessageQueue("orders", "broker-a", 5))
    assert not one.includes(MessageQueue("others", "broker-a", 3))
    assert not narrowed([EqualTo(("queue_id",), 3), EqualTo(("queue_id",), 4)]).includes(QUEUE)


OFFSETS = [
    ([EqualTo(("queue_offset",), 7)], (7, 8)),
    ([GreaterThan(("queue_offset",), 7), LessThan(("queue_offset",), 9)], (8, 9)),
    ([GreaterThanOrEqual(("queue_offset",), 7), LessThanOrEqual(("queue_offset",), 9)], (7, 10)),
    ([GreaterThan(("queue_offset",), 5), GreaterThan(("queue_offset",), 90)], (91, 100)),
    ([GreaterThan(("queue_offset",), 500)], (501, 501)),
    ([LessThan(("queue_offset",), 0)], (0, 0)),
]


@pytest.mark.parametrize(("filters", "range_"), OFFSETS)
def test_offsets(filters: list[object], range_: tuple[int, int]) -> None:
    cut = narrowed(filters).cut(QueueRange(QUEUE, 0, 100), at_time)
    assert (cut.begin, cut.end) == range_


@pytest.mark.parametrize("shift_us", [-1001, -1000, -1, 0, 1, 999, 1000])
def test_times_never_leave_out_a_message_that_is_wanted(shift_us: int) -> None:
    """Spark compares microseconds; brokers store milliseconds. A range may be larger than needed, but never smaller."""
    at = START + timedelta(milliseconds=50, microseconds=shift_us)
    stored = {offset: START + timedelta(milliseconds=offset) for offset in range(100)}
    wanted = {
        GreaterThan: {offset for offset, time in stored.items() if time > at},
        GreaterThanOrEqual: {offset for offset, time in stored.items() if time >= at},
        LessThan: {offset for offset, time in stored.items() if time < at},
        LessThanOrEqual: {offset for offset, time in stored.items() if time <= at},
        EqualTo: {offset for offset, time in stored.items() if time == at},
    }
    for kind, offsets in wanted.items():
        cut = narrowed([kind(("store_timestamp",), at)]).cut(QueueRange(QUEUE, 0, 100), at_time)
        assert offsets <= set(range(cut.begin, cut.end)), kind
        assert cut.rows <= len(offsets) + 4, kind


def test_this_process_plans_no_query() -> None:
    assert not is_switched_on()
