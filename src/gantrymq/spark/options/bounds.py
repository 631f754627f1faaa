"""Where a query starts or ends, as its options say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from gantrymq.errors import ConfigError
from gantrymq.spark.offsets import Positions, parse_positions
from gantrymq.spark.options.values import instant_ms, instants_ms


class Edge(Enum):
    """The beginning or the end of a queue."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Instant:
    """The first message stored at this time or later, in every queue."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Instants:
    """The same with a time for each queue."""

    timestamps_ms: Positions


Bound: TypeAlias = Edge | Instant | Instants | Positions
"""Where a query starts or ends."""


def bound(options: Mapping[str, str], by_offset: str, edges: tuple[Edge, ...]) -> Bound:
    """Where the query starts or ends: by one time, by a time per queue, or by offsets, in this order of priority.
    ``by_offset``: the name of the option with offsets, which those with times begin with."""
    at, by_time = f"{by_offset.removesuffix('Offsets')}Timestamp", f"{by_offset}ByTimestamp"
    if at in options:
        return Instant(instant_ms(options[at], at))
    if by_time in options:
        return Instants(instants_ms(options[by_time], by_time))
    text = options[by_offset].strip()
    for edge in edges:
        if text.lower() == edge.value:
            return edge
    if not text.startswith("{"):
        allowed = ", ".join(edge.value for edge in edges)
        raise ConfigError(f"option {by_offset} is {text!r}; allowed are {allowed} and JSON per queue")
    return parse_positions(text, by_offset)
