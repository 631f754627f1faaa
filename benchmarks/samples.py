"""The processor time of broker and client and the idle time of the cores at a moment, and figures of two moments."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import machine
from benchmarks.machine import Ticks
from benchmarks.processes import Running, cpu_s


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment."""

    at: float
    broker_cpu_s: float
    client_cpu_s: float
    ticks: Ticks
    """Of the cores that broker and client run on."""


def sampler(running: Running, cores: frozenset[int], pids: list[int]) -> Callable[[], Sample]:
    """``pids``: the processes of the client."""

    def sample() -> Sample:
        client = sum(cpu_s(pid) for pid in pids)
        return Sample(time.monotonic(), running.cpu_s(), client, machine.ticks(cores))

    return sample


@dataclass(frozen=True, slots=True)
class Figures:
    """One turn of a row on one broker."""

    per_second: float
    average_ms: float
    """0 where it was not measured, as in a short run."""
    max_ms: float
    broker_cpu_us: float
    """Processor time of the broker per message or transaction, microseconds."""
    client_cpu_us: float
    """The same of the process that is measured: for consuming the consumer, not the producer that feeds it."""
    idle: float
    """The part of the time of the cores in which they had nothing to do, from 0 to 1."""
    failed: int


def figures(
    before: Sample, after: Sample, messages: float, *, per_second: float, average_ms: float = 0.0, max_ms: float = 0.0,
    failed: int = 0,
) -> Figures:  # fmt: skip
    """What was measured between two samples, in which ``messages`` were sent or received."""
    each_us = 1e6 / max(1.0, messages)
    return Figures(
        per_second=per_second,
        average_ms=average_ms,
        max_ms=max_ms,
        broker_cpu_us=(after.broker_cpu_s - before.broker_cpu_s) * each_us,
        client_cpu_us=(after.client_cpu_s - before.client_cpu_s) * each_us,
        idle=machine.idle_share(before.ticks, after.ticks),
        failed=failed,
    )
