"""Metrics of replication, of both roles."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.replication.following import State
from gantrymq.broker.replication.watched import Watched
from gantrymq.observability.metrics import Metric, MetricKind, Metrics

GAP: Final[Metric] = Metric(
    "gantry_replica_gap_bytes", MetricKind.GAUGE, "bytes", ("replica",),
    "Bytes of the log that a connected replica, named by its address, has not confirmed.",
)  # fmt: skip
FOLLOWS: Final[Metric] = Metric(
    "gantry_replica_follows", MetricKind.GAUGE, "1", (),
    "Of a replica: 1 while it follows its primary, 0 while it does not; its log says why.",
)  # fmt: skip


def declare_replication(metrics: Metrics, watched: Watched) -> None:
    """Declare the metrics of this module."""

    def gaps() -> list[tuple[tuple[str, ...], int]]:
        return (
            [] if watched.port is None else [((one.identity,), one.gap) for one in watched.port.replicas if one.follows]
        )

    def follows() -> list[tuple[tuple[str, ...], int]]:
        follower = watched.follower
        return [] if follower is None else [((), int(follower.state is State.FOLLOWING))]

    metrics.declare(GAP, gaps)
    metrics.declare(FOLLOWS, follows)
