"""Metrics. Each is declared once with name, kind, unit, labels and help, and read by HTTP, remoting and the command
line.

A metric is a declaration and a function that reads its value. Most values exist anyway (positions of queues, sizes of
tables), so metrics cost almost nothing until they are read.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from gantrymq.errors import ConfigError


class MetricKind(enum.StrEnum):
    """How the values of a metric may change."""

    COUNTER = "counter"
    """It only increases, from 0 at the start of the process."""
    GAUGE = "gauge"
    """It increases and decreases."""
    HISTOGRAM = "histogram"
    """Values counted in buckets, and their sum."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric."""

    name: str
    """RocketMQ 5's name where it has one. Counters end with ``_total``."""
    kind: MetricKind
    unit: str
    """``messages``, ``bytes``, ``milliseconds`` ...; empty for plain numbers."""
    labels: tuple[str, ...]
    help: str
    """A sentence."""
    before: str = ""
    """The name that version 0.1 gave it. It is shown beside the new one until the version that follows."""


class Histogram:
    """Counts observed values in buckets with upper bounds."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """``bounds``: the upper bounds of the buckets, ascending. A last bucket without a bound is added."""
        if not bounds or sorted(set(bounds)) != list(bounds):
            raise ConfigError(f"the bounds of a histogram must ascend, not {list(bounds)}")
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value that was seen so many times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def observe_all(self, values: Sequence[int]) -> None:
        """``observe`` of several values."""
        if max(values) <= self.bounds[0]:
            self.counts[0] += len(values)
            self.sum += sum(values)
        else:
            for value in values:
                self.observe(value)

    def add(self, other: Histogram) -> None:
        """Add the values of another one with the same bounds."""
        self.counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    def cumulative(self) -> list[tuple[float, int]]:
        """(upper bound, number of values up to it) for each bucket; the last bound is infinite."""
        total = 0
        found: list[tuple[float, int]] = []
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            found.append((bound, total))
        return found


READINGS_AT_ONCE: Final = 2
"""Some readings look at every queue of a topic."""
Value: TypeAlias = int | float | Histogram
Reading: TypeAlias = tuple[tuple[str, ...], Value]
"""The values of the labels, in the order of the declaration, and the measured value."""
Read: TypeAlias = Callable[[], Iterable[Reading]]
ReadRows: TypeAlias = Callable[[], Iterable[tuple[tuple[str, ...], Sequence[Value]]]]
"""The values of the labels, and one measured value for each metric of a table."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its current values."""

    metric: Metric
    readings: tuple[Reading, ...]


def _together(reads: Sequence[Read]) -> list[Reading]:
    return [reading for read in reads for reading in read()]


def _column(read: ReadRows, column: int) -> list[Reading]:
    return [(labels, values[column]) for labels, values in read()]


def single(read: Callable[[], int | float]) -> Read:
    """A function that reads a metric without labels."""
    return lambda: (((), read()),)


class Metrics:
    """The metrics of one process or one of its parts, in the order of their declaration."""

    def __init__(self) -> None:
        self._declared: dict[str, tuple[Metric, Read]] = {}
        self._tables: list[tuple[tuple[Metric, ...], ReadRows]] = []
        self._shared: dict[str, list[Read]] = {}

    def share(self, metric: Metric, read: Read) -> None:
        """Add readings of a metric that several parts measure, each with labels of its own; declared by the first one.

        Raises ConfigError when the name is declared by ``declare``.
        """
        reads = self._shared.get(metric.name)
        if reads is None:
            reads = self._shared[metric.name] = []
            self.declare(metric, partial(_together, reads))
        reads.append(read)

    def declare(self, metric: Metric, read: Read) -> None:
        """Add a metric. Raises ConfigError when the name is already declared."""
        self._add(metric, read)
        self._tables.append(((metric,), lambda: ((labels, (value,)) for labels, value in read())))

    def declare_table(self, metrics: Sequence[Metric], read: ReadRows) -> None:
        """Add metrics with the same labels that are read together, in one walk over what they measure.

        Raises ConfigError like ``declare``.
        """
        for column, metric in enumerate(metrics):
            self._add(metric, partial(_column, read, column))
        self._tables.append((tuple(metrics), read))

    def _add(self, metric: Metric, read: Read) -> None:
        if metric.name in self._declared:
            raise ConfigError(f"the metric {metric.name} is declared twice")
        self._declared[metric.name] = metric, read

    def declared(self) -> list[Metric]:
        return [metric for metric, _ in self._declared.values()]

    def read(self, name: str) -> dict[tuple[str, ...], Value]:
        """The values of a metric by label values. Raises KeyError for a name that is not declared."""
        return dict(self._declared[name][1]())

    def numbers(self, name: str) -> dict[tuple[str, ...], int | float]:
        """The values of a counter or gauge by label values; empty for a histogram. Raises KeyError like ``read``."""
        return {labels: value for labels, value in self._declared[name][1]() if not isinstance(value, Histogram)}

    def total(self, name: str) -> int | float:
        """The sum over all labels of a counter or gauge."""
        return sum(self.numbers(name).values())

    def steps(self) -> Iterator[Family | None]:
        """``families`` in small steps: None stands for a reading more, so that others can be served in between."""
        for metrics, read in self._tables:
            rows: list[tuple[tuple[str, ...], Sequence[Value]]] = []
            try:
                for row in read():
                    rows.append(row)
                    if len(rows) % READINGS_AT_ONCE == 0:
                        yield None
            except RuntimeError:  # what is read was changed in between; now without a pause
                rows = list(read())
            for column, metric in enumerate(metrics):
                yield Family(metric, tuple((labels, values[column]) for labels, values in rows))

    def families(self) -> Iterator[Family]:
        """All metrics with their current values."""
        for metrics, read in self._tables:
            rows = tuple(read())
            for column, metric in enumerate(metrics):
                yield Family(metric, tuple((labels, values[column]) for labels, values in rows))
