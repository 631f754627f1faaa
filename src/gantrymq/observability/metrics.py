"""Metrics: declared once with name, kind, unit, labels and help; read by HTTP, remoting and the command line alike.

Counting costs next to nothing: most figures are kept anyway (positions of queues, tables), and a metric only says how
to read them. So a metric is a declaration with a function that reads it; nothing happens until somebody asks.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gantrymq.errors import ConfigError


class Kind(enum.StrEnum):
    """How the values of a metric may change."""

    COUNTER = "counter"
    """Only up, from 0 at the start of the process."""
    GAUGE = "gauge"
    """Up and down."""
    HISTOGRAM = "histogram"
    """Values sorted into buckets, with their sum."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric."""

    name: str
    """RocketMQ 5's name where it has one. Counters end with ``_total``."""
    kind: Kind
    unit: str
    """``messages``, ``bytes``, ``milliseconds`` ...; empty for plain numbers."""
    labels: tuple[str, ...]
    help: str
    """A sentence."""


class Histogram:
    """How many of the observed values were at most so large."""

    __slots__ = ("_first", "bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """``bounds``: the upper ends of the buckets, ascending; the last bucket, without an end, is added."""
        if not bounds or sorted(set(bounds)) != list(bounds):
            raise ConfigError(f"the bounds of a histogram must ascend, not {list(bounds)}")
        self.bounds = tuple(bounds)
        self._first = self.bounds[0]
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        if value <= self._first:  # nearly all values of a time are short ones
            self.counts[0] += 1
        else:
            self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[float, int]]:
        """(upper end, how many values were at most that), the last with an endless end."""
        total = 0
        found: list[tuple[float, int]] = []
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            found.append((bound, total))
        return found


Value: TypeAlias = int | float | Histogram
Reading: TypeAlias = tuple[tuple[str, ...], Value]
"""The values of the labels, in the order of the declaration, and what was measured."""
Read: TypeAlias = Callable[[], Iterable[Reading]]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with what it reads now."""

    metric: Metric
    readings: tuple[Reading, ...]


def single(read: Callable[[], int | float]) -> Read:
    """How to read a metric without labels."""
    return lambda: (((), read()),)


class Metrics:
    """The metrics of one process or one of its parts, in the order of their declaration."""

    def __init__(self) -> None:
        self._declared: dict[str, tuple[Metric, Read]] = {}

    def declare(self, metric: Metric, read: Read) -> None:
        """Raises ConfigError when the name is taken: a metric has one home."""
        if metric.name in self._declared:
            raise ConfigError(f"the metric {metric.name} is declared twice")
        self._declared[metric.name] = metric, read

    def declared(self) -> list[Metric]:
        return [metric for metric, _ in self._declared.values()]

    def read(self, name: str) -> dict[tuple[str, ...], Value]:
        """By label values. Raises KeyError for a name that is not declared."""
        return dict(self._declared[name][1]())

    def numbers(self, name: str) -> dict[tuple[str, ...], int | float]:
        """A counter or gauge by label values; nothing of a histogram. Raises KeyError like ``read``."""
        return {labels: value for labels, value in self._declared[name][1]() if not isinstance(value, Histogram)}

    def total(self, name: str) -> int | float:
        """The sum over all labels of a counter or gauge."""
        return sum(self.numbers(name).values())

    def families(self) -> Iterator[Family]:
        """Everything, now."""
        for metric, read in self._declared.values():
            yield Family(metric, tuple(read()))
