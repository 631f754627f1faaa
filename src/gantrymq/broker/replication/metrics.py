"""Metrics of replication, of both roles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.broker.replication.following import State
from gantrymq.broker.replication.watched import Watched
from gantrymq.message.replication import ElectionState
from gantrymq.observability.metrics import Metric, MetricKind, Metrics

GAP: Final[Metric] = Metric(
    "gantry_replica_gap_bytes", MetricKind.GAUGE, "bytes", ("replica",),
    "Bytes of the log that a connected replica, named by its address, has not confirmed.",
)  # fmt: skip
FOLLOWS: Final[Metric] = Metric(
    "gantry_replica_follows", MetricKind.GAUGE, "1", (),
    "Of a replica: 1 while it follows its primary, 0 while it does not; its log says why.",
)  # fmt: skip
EPOCH: Final[Metric] = Metric(
    "gantry_election_epoch", MetricKind.GAUGE, "1", (),
    "Of a broker group that elects its primary: grows with each primary.",
)  # fmt: skip
IN_SYNC: Final[Metric] = Metric(
    "gantry_election_in_sync", MetricKind.GAUGE, "brokers", (),
    "How many brokers of the group have everything that was acknowledged, the primary included.",
)  # fmt: skip
MEMBER: Final[Metric] = Metric(
    "gantry_election_member", MetricKind.GAUGE, "1", (), "One while this broker is one of them, and may be elected.",
)  # fmt: skip
PROBLEM: Final[Metric] = Metric(
    "gantry_election_problem", MetricKind.GAUGE, "1", (),
    "One while the record of who is primary cannot be read or written; the log says why.",
)  # fmt: skip
CHANGED: Final[Metric] = Metric(
    "gantry_election_changed_timestamp_seconds", MetricKind.GAUGE, "seconds", (),
    "When this broker saw another primary last, in seconds since 1970; 0: never.",
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

    def of_election(value: Callable[[ElectionState], float]) -> Callable[[], list[tuple[tuple[str, ...], float]]]:
        def values() -> list[tuple[tuple[str, ...], float]]:
            state = watched.election()
            return [] if state is None else [((), value(state))]

        return values

    metrics.declare(EPOCH, of_election(lambda state: state.epoch))
    metrics.declare(IN_SYNC, of_election(lambda state: state.in_sync))
    metrics.declare(MEMBER, of_election(lambda state: int(state.is_member)))
    metrics.declare(PROBLEM, of_election(lambda state: int(bool(state.problem))))
    metrics.declare(CHANGED, of_election(lambda state: state.changed_ms / 1000))
    metrics.declare(GAP, gaps)
    metrics.declare(FOLLOWS, follows)
