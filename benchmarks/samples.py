"""Samples of processor time and idle time, and the figures that result from two samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import machine
from benchmarks.machine import Ticks
from benchmarks.processes import Running, cpu_s


@dataclass(frozen=True, slots=True)
class Sample:
    """The processor times of broker and client at one moment."""

    at: float
    broker_cpu_s: float
    client_cpu_s: float
    ticks: Ticks
    """The ticks of the cores on which broker and client run."""


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
    """0 if it was not measured, as in a short run."""
    max_ms: float
    broker_cpu_us: float
    """Processor time of the broker per message or transaction, microseconds."""
    client_cpu_us: float
    """Processor time of the measured client per message, microseconds. When consuming, the producer does not count."""
    idle: float
    """The share of the time in which the cores were idle, from 0 to 1."""
    failed: int
    stolen: float = 0.0
    """The share of the time that other virtual machines of the same host had, from 0 to 1."""


def figures(
    before: Sample, after: Sample, messages: float, *, per_second: float, average_ms: float = 0.0, max_ms: float = 0.0,
    failed: int = 0,
) -> Figures:  # fmt: skip
    """The figures of the time between two samples, in which ``messages`` were sent or received."""
    each_us = 1e6 / max(1.0, messages)
    return Figures(
        per_second=per_second,
        average_ms=average_ms,
        max_ms=max_ms,
        broker_cpu_us=(after.broker_cpu_s - before.broker_cpu_s) * each_us,
        client_cpu_us=(after.client_cpu_s - before.client_cpu_s) * each_us,
        idle=machine.idle_share(before.ticks, after.ticks),
        failed=failed,
        stolen=machine.stolen_share(before.ticks, after.ticks),
    )
