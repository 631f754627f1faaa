"""Which queues, offsets and times the filters of a batch query leave over. No I/O.

Spark hands filters to a Python source only in sessions with ``spark.sql.python.filterPushdown.enabled=true``. They
only narrow what is read: Spark applies all of them again, so a filter that is not understood here costs nothing but
time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from gantrymq.message.queues import MessageQueue
from gantrymq.spark.source.partitions import QueueRange

_PLANNER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module of the process that Spark starts to plan a query with pushed filters."""


def is_switched_on() -> bool:
    """Whether this process plans a query whose filters are pushed. Elsewhere a reader must not offer to take them:
    Spark then fails the query."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PLANNER in sys.modules or getattr(main, "name", None) == _PLANNER


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What filters leave over. None: no limit."""

    topics: frozenset[Any] | None = None
    brokers: frozenset[Any] | None = None
    queue_ids: frozenset[Any] | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    from_ms: int | None = None
    """Only messages that were stored at this time or later."""
    to_ms: int | None = None
    """Only messages that were stored at this time or before."""

    def includes(self, queue: MessageQueue) -> bool:
        """Whether rows of this queue can be in the result."""
        values = ((self.topics, queue.topic), (self.brokers, queue.broker_name), (self.queue_ids, queue.queue_id))
        return all(allowed is None or value in allowed for allowed, value in values)

    def cut(self, part: QueueRange, at_time: Callable[[MessageQueue, int], int]) -> QueueRange:
        """The part of a range that can be in the result; it may be empty. ``at_time``: the offset of the first message
        that was stored at a time or later."""
        begin, end = part.begin, part.end
        if self.first_offset is not None:
            begin = max(begin, self.first_offset)
        if self.last_offset is not None:
            end = min(end, self.last_offset + 1)
        if self.from_ms is not None and begin < end:
            begin = max(begin, at_time(part.queue, self.from_ms))
        if self.to_ms is not None and begin < end:
            # One more, because Apache's 4.x brokers answer with the nearest message, before or after the time.
            end = min(end, at_time(part.queue, self.to_ms + 1) + 1)
        return replace(part, begin=begin, end=max(begin, end))


def narrowed(filters: Iterable[Any]) -> Narrowing:
    """The limits in Spark's filters (``pyspark.sql.datasource.Filter``), which all must hold."""
    found = Narrowing()
    for one in filters:
        attribute = getattr(one, "attribute", None)
        step = _STEPS.get((type(one).__name__, attribute[0])) if attribute and len(attribute) == 1 else None
        if step is not None:
            found = step(found, one.value)
    return found


def _with(found: Narrowing, field: str, value: Any) -> Narrowing:
    changed: dict[str, Any] = {field: value}
    return replace(found, **changed)


def _only(field: str) -> Callable[[Narrowing, Any], Narrowing]:
    def step(found: Narrowing, value: Any) -> Narrowing:
        values = frozenset(value if isinstance(value, list | tuple) else [value])
        before = getattr(found, field)
        return _with(found, field, values if before is None else before & values)

    return step


def _at_least(field: str, read: Callable[[Any], int], more: int = 0) -> Callable[[Narrowing, Any], Narrowing]:
    def step(found: Narrowing, value: Any) -> Narrowing:
        limit, before = read(value) + more, getattr(found, field)
        return _with(found, field, limit if before is None else max(before, limit))

    return step


def _at_most(field: str, read: Callable[[Any], int], less: int = 0) -> Callable[[Narrowing, Any], Narrowing]:
    def step(found: Narrowing, value: Any) -> Narrowing:
        limit, before = read(value) - less, getattr(found, field)
        return _with(found, field, limit if before is None else min(before, limit))

    return step


def _both(*steps: Callable[[Narrowing, Any], Narrowing]) -> Callable[[Narrowing, Any], Narrowing]:
    def step(found: Narrowing, value: Any) -> Narrowing:
        for one in steps:
            found = one(found, value)
        return found

    return step


def _milliseconds(value: datetime) -> int:
    """Whole milliseconds, as brokers store them; a message at this time may be in the result."""
    return int(value.timestamp() * 1000)


_FIRST, _LAST = _at_least("first_offset", int), _at_most("last_offset", int)
_FROM, _TO = _at_least("from_ms", _milliseconds), _at_most("to_ms", _milliseconds)

_STEPS: Final[dict[tuple[str, str], Callable[[Narrowing, Any], Narrowing]]] = {
    ("EqualTo", "topic"): _only("topics"),
    ("In", "topic"): _only("topics"),
    ("EqualTo", "broker_name"): _only("brokers"),
    ("In", "broker_name"): _only("brokers"),
    ("EqualTo", "queue_id"): _only("queue_ids"),
    ("In", "queue_id"): _only("queue_ids"),
    ("EqualTo", "queue_offset"): _both(_FIRST, _LAST),
    ("GreaterThanOrEqual", "queue_offset"): _FIRST,
    ("GreaterThan", "queue_offset"): _at_least("first_offset", int, 1),
    ("LessThanOrEqual", "queue_offset"): _LAST,
    ("LessThan", "queue_offset"): _at_most("last_offset", int, 1),
    ("EqualTo", "store_timestamp"): _both(_FROM, _TO),
    ("GreaterThanOrEqual", "store_timestamp"): _FROM,
    ("GreaterThan", "store_timestamp"): _FROM,
    ("LessThanOrEqual", "store_timestamp"): _TO,
    ("LessThan", "store_timestamp"): _TO,
}
"""What each filter on each column limits."""
