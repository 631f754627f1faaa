"""How far a streaming query is behind, from the progress that Spark reports after each batch. No I/O.

Spark has no hook for the metrics of a Python source, but it passes on the offsets of the source: the end of the batch
(``endOffset``), and the ends of the queues when it was planned (``latestOffset``, with the time of the oldest message
that was left over; see ``stream.StreamReader.reportLatestOffset``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.spark.offsets import StreamOffset


@dataclass(frozen=True, slots=True)
class Lag:
    """What a query has still to read, and the size of its state."""

    rows_behind: int
    """Messages that were in the queues when the last batch was planned, and that it did not read."""
    seconds_behind: float | None
    """The age of the oldest of them, by the brokers' clocks; 0 when there is none, None when the age is not known."""
    state_rows: int
    """Rows in the state of all operators, for example keys of a deduplication. Where RocksDB does not count them
    (``trackTotalNumberOfRows=false``, as in our pipelines), this is its estimate, which may be far off."""
    state_bytes: int
    """Memory of that state."""


def lag_of(progress: Mapping[str, Any], now_ms: int) -> Lag:
    """The lag in one progress, in the form of Spark's JSON. Sources of other formats count as read to their end."""
    rows, oldest = 0, []
    for source in progress.get("sources", ()):
        end, latest = _tree(source.get("endOffset")), _tree(source.get("latestOffset"))
        behind = _rows_between(end, latest)
        rows += behind
        if behind:
            oldest.append(latest.get("oldest_unread_ms"))
    operators = progress.get("stateOperators", ())
    return Lag(
        rows_behind=rows,
        seconds_behind=_age_s(oldest, now_ms),
        state_rows=sum(operator.get("numRowsTotal", 0) for operator in operators),
        state_bytes=sum(operator.get("memoryUsedBytes", 0) for operator in operators),
    )


def _tree(offset: Any) -> Mapping[str, Any]:
    """An offset as Spark reports it: JSON, or JSON as a text."""
    try:
        found = msgspec.json.decode(offset) if isinstance(offset, str) else offset
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _rows_between(end: Mapping[str, Any], latest: Mapping[str, Any]) -> int:
    try:
        reached, ends = StreamOffset.from_json(end), StreamOffset.from_json(latest).positions
    except ConfigError:
        return 0  # a source of another format
    return sum(max(0, offset - reached.positions.get(queue, offset)) for queue, offset in ends.items())


def _age_s(oldest: list[int | None], now_ms: int) -> float | None:
    known = [time for time in oldest if time is not None]
    if len(known) < len(oldest):
        return None
    return max(0, now_ms - min(known)) / 1000 if known else 0.0
