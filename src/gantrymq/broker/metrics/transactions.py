"""Metrics of transactions."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.registries.clients import ProducerGroups
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.broker.transactions.counts import TransactionCounts
from gantrymq.observability.metrics import Metric, MetricKind, Metrics, Read, single
from gantrymq.runtime.clock import Clock
from gantrymq.transactions.table.decisions import Decision

_BY_TOPIC: Final = ("topic",)

HALVES: Final[Metric] = Metric(
    "rocketmq_half_messages",
    MetricKind.GAUGE,
    "messages",
    _BY_TOPIC,
    "Half messages of a topic that are not decided yet.",
)
COMMITS: Final[Metric] = Metric(
    "rocketmq_commit_messages_total", MetricKind.COUNTER, "messages", _BY_TOPIC, "Half messages that were committed."
)
ROLLBACKS: Final[Metric] = Metric(
    "rocketmq_rollback_messages_total",
    MetricKind.COUNTER,
    "messages",
    _BY_TOPIC,
    "Half messages that were rolled back.",
)
LATENCY: Final[Metric] = Metric(
    "rocketmq_finish_message_latency_milliseconds", MetricKind.HISTOGRAM, "milliseconds", _BY_TOPIC,
    "Time from the storing of a half message to its commit.", before="rocketmq_finish_message_latency",
)  # fmt: skip
OLDEST: Final[Metric] = Metric(
    "gantry_oldest_half_message_age_seconds", MetricKind.GAUGE, "seconds", (),
    "Age of the oldest half message that is not decided; 0 when there is none.",
)  # fmt: skip
HALVES_BY_GROUP: Final[Metric] = Metric(
    "gantry_half_messages_by_group", MetricKind.GAUGE, "messages", ("producer_group",),
    "Half messages of a producer group that are not decided yet.",
)  # fmt: skip
PARKED: Final[Metric] = Metric(
    "gantry_parked_messages", MetricKind.GAUGE, "messages", (),
    "Half messages that were put aside and wait for an operator, whenever that was; resumed ones do not count.",
)  # fmt: skip
UNREADABLE: Final[Metric] = Metric(
    "gantry_quarantined_half_messages", MetricKind.GAUGE, "messages", (),
    "Half messages in the log that cannot be read; they are neither checked nor delivered.",
)  # fmt: skip
WITHOUT_PRODUCER: Final[Metric] = Metric(
    "gantry_groups_without_producer", MetricKind.GAUGE, "groups", (),
    "Producer groups with half messages that are not decided and no producer online who could be asked.",
)  # fmt: skip


COUNTED: Final = {
    "halves": ("messages", "Half messages that were stored."),
    "joined": ("requests", "Sends of a half message that was stored already; they got the same answer."),
    "decided_by_check": ("messages", "Commits and rollbacks that answered a check-back."),
    "unknowns": ("requests", "Ends that said UNKNOWN."),
    "repeated": ("requests", "Ends that repeated a decision; they changed nothing."),
    "conflicts": ("requests", "Ends that contradicted an earlier decision and were refused."),
    "refused": ("requests", "Ends that named no half message or the wrong group, or came from a stranger."),
    "failed": ("messages", "Decisions that could not be stored; the half message stayed open."),
    "checks_sent": ("requests", "Check-backs that were sent to producers."),
    "early_checks": ("requests", "Check-backs during the immunity, because the sender was gone."),
    "checks_unanswered": ("requests", "Check-backs that had no answer when the next one was due."),
    "nobody_online": ("messages", "Half messages that were due while no producer of their group was online."),
    "parked": ("messages", "Half messages that were put aside for an operator."),
    "completed_at_start": ("messages", "Transactions whose op message was missing when the broker started."),
    "quarantined": ("messages", "Half messages that could not be read when the broker started."),
}
"""Field of TransactionCounts to unit and help; the metric is ``gantry_transaction_{field}_total``."""


def declare_transactions(
    metrics: Metrics, coordinator: TransactionCoordinator, producers: ProducerGroups, clock: Clock
) -> None:  # fmt: skip
    """Declare the metrics of this module."""
    counts = coordinator.counts

    def oldest() -> float:
        half = coordinator.table.oldest()
        return 0.0 if half is None else max(0, clock.wall_ms() - half.stored_at) / 1000

    def without_producer() -> int:
        return sum(not producers.has_producer(group) for group in coordinator.table.by_group())

    metrics.declare(HALVES, lambda: [((topic,), number) for topic, number in coordinator.table.by_topic().items()])
    metrics.declare(
        COMMITS, lambda: [((topic,), sum(latency.counts)) for topic, latency in counts.commit_latency.items()]
    )
    metrics.declare(ROLLBACKS, lambda: [((topic,), number) for topic, number in counts.rolled_back.items()])
    metrics.declare(LATENCY, lambda: [((topic,), latency) for topic, latency in counts.commit_latency.items()])
    metrics.declare(OLDEST, single(oldest))
    metrics.declare(
        HALVES_BY_GROUP, lambda: [((group,), number) for group, number in coordinator.table.by_group().items()]
    )
    metrics.declare(PARKED, single(coordinator.parked.waiting))
    metrics.declare(UNREADABLE, single(lambda: coordinator.table.decisions.count(Decision.QUARANTINED)))
    metrics.declare(WITHOUT_PRODUCER, single(without_producer))
    for field, (unit, text) in COUNTED.items():
        metrics.declare(
            Metric(f"gantry_transaction_{field}_total", MetricKind.COUNTER, unit, (), text), _counter(counts, field)
        )


def _counter(counts: TransactionCounts, field: str) -> Read:
    return single(lambda: int(getattr(counts, field)))
