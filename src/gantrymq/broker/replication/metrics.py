"""Metrics of replication, of both roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gantrymq.broker.replication.following import State
from gantrymq.broker.replication.port import Replica
from gantrymq.broker.replication.replica import Follower
from gantrymq.observability.metrics import Metric, MetricKind, Metrics

GAP: Final[Metric] = Metric(
    "gantry_replica_gap_bytes", MetricKind.GAUGE, "bytes", ("replica",),
    "Bytes of the log that a connected replica, named by its address, has not confirmed.",
)  # fmt: skip
FOLLOWS: Final[Metric] = Metric(
    "gantry_replica_follows", MetricKind.GAUGE, "1", (),
    "Of a replica: 1 while it follows its primary, 0 while it does not; its log says why.",
)  # fmt: skip


def declare_replication(metrics: Metrics, replicas: Sequence[Replica] = (), follower: Follower | None = None) -> None:
    """Declare the metrics of this module. ``replicas``: those that are connected. ``follower``: of a replica."""
    metrics.declare(GAP, lambda: [((one.identity,), one.gap) for one in replicas if one.follows])
    metrics.declare(FOLLOWS, lambda: [] if follower is None else [((), int(follower.state is State.FOLLOWING))])
