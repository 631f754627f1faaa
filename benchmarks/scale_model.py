"""What a cluster of brokers and executors can do, computed from the costs of a row. Pure arithmetic.

A broker is one event loop, so it uses one core. A task is one Python worker with a thread of the JVM, so an executor
uses as many cores as it runs tasks. The driver plans a micro-batch before its tasks run: a fixed time and a time for
each queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TEN_GIGABIT: Final = 1.25e9
"""Bytes per second of a network interface of 10 Gbit/s."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a row costs, in microseconds of a core."""

    broker_us: float
    python_us: float
    jvm_us: float
    wire_bytes: float
    """Bytes of a row on the network."""

    @property
    def executor_us(self) -> float:
        return self.python_us + self.jvm_us

    @property
    def all_us(self) -> float:
        return self.broker_us + self.executor_us


@dataclass(frozen=True, slots=True)
class Planning:
    """What a micro-batch costs before its first row."""

    batch_ms: float
    queue_ms: float

    def seconds(self, queues: int) -> float:
        return (self.batch_ms + self.queue_ms * queues) / 1000


@dataclass(frozen=True, slots=True)
class Cluster:
    """What there is."""

    brokers: int
    executor_cores: int
    queues_per_broker: int = 8
    batch_rows: int = 1_000_000
    nic_bytes: float = TEN_GIGABIT
    """Bytes per second of the network interface of each broker."""
    shared_cores: int | None = None
    """Everything runs on so many cores of one machine; None: each broker and each task has a core."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the model says."""

    rows_per_second: float
    limit: str
    """What would have to become faster."""


def flows(costs: Costs, cluster: Cluster) -> dict[str, float]:
    """The rows per second that each part could do alone."""
    found = {
        "broker": cluster.brokers * 1e6 / costs.broker_us,
        "network": cluster.brokers * cluster.nic_bytes / costs.wire_bytes,
        "Python workers": cluster.executor_cores * 1e6 / costs.executor_us,
    }
    if cluster.shared_cores is not None:
        found["cores of the machine"] = cluster.shared_cores * 1e6 / costs.all_us
    return found


def forecast(costs: Costs, planning: Planning, cluster: Cluster, efficiency: float = 1.0) -> Forecast:
    """The rows per second of a stream. ``efficiency``: which part of the slowest flow is reached in practice."""
    slowest, flow = min(flows(costs, cluster).items(), key=lambda one: one[1])
    flow *= efficiency
    planned_s = planning.seconds(cluster.brokers * cluster.queues_per_broker)
    moved_s = cluster.batch_rows / flow
    return Forecast(cluster.batch_rows / (planned_s + moved_s), "driver" if planned_s > moved_s else slowest)


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(value at 0, slope) of the straight line with the least squares. Needs two different x."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return mean_y - slope * mean_x, slope
