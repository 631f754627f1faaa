"""All metrics of the clients of a process: the one list that the exposition and docs/metrics.md are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from gantrymq.client.metrics.figures import Backlog, ClientFigures, OutboxFigures, ReadFigures, SendFigures
from gantrymq.client.metrics.registry import Registry
from gantrymq.observability.metrics import Metric, MetricKind, Metrics, Read, Reading, Value

_SENT: Final = ("topic", "producer_group")
_READ: Final = ("topic", "consumer_group")

SENDS: Final[dict[Metric, Callable[[SendFigures], Value]]] = {
    Metric("rocketmq_send_cost_time", MetricKind.HISTOGRAM, "milliseconds", _SENT,
           "Time of a request with a message or a batch, until the broker answered that it is stored."):
        lambda figures: figures.cost_ms,
    Metric("gantry_client_messages_sent_total", MetricKind.COUNTER, "messages", _SENT,
           "Messages that a broker has stored; half messages count, too."):
        lambda figures: figures.sent,
    Metric("gantry_client_sends_failed_total", MetricKind.COUNTER, "requests", _SENT,
           "Sends that ended with an error after all their attempts."):
        lambda figures: figures.failed,
    Metric("gantry_client_send_retries_total", MetricKind.COUNTER, "requests", _SENT,
           "Attempts of sends after the first one."):
        lambda figures: figures.retried,
    Metric("gantry_client_ends_unconfirmed_total", MetricKind.COUNTER, "messages", _SENT,
           "Commits and rollbacks of half messages that no broker confirmed; a check-back decides them."):
        lambda figures: figures.unconfirmed,
}  # fmt: skip
READS: Final[dict[Metric, Callable[[ReadFigures], Value]]] = {
    Metric("gantry_client_messages_received_total", MetricKind.COUNTER, "messages", _READ,
           "Messages that arrived in this process."):
        lambda figures: figures.received,
    Metric("rocketmq_delivery_latency", MetricKind.HISTOGRAM, "milliseconds", _READ,
           "Time from the storing of a message to its arrival, by the clocks of both machines."):
        lambda figures: figures.delivery_ms,
    Metric("rocketmq_await_time", MetricKind.HISTOGRAM, "milliseconds", _READ,
           "Time for which messages that had arrived waited for a free thread of the listener."):
        lambda figures: figures.await_ms,
    Metric("gantry_client_messages_consumed_total", MetricKind.COUNTER, "messages", _READ,
           "Messages that the listener consumed."):
        lambda figures: figures.consumed,
    Metric("gantry_client_messages_failed_total", MetricKind.COUNTER, "messages", _READ,
           "Messages that the listener did not consume; they come again."):
        lambda figures: figures.failed,
}  # fmt: skip
PROCESS_TIME: Final[Metric] = Metric(
    "rocketmq_process_time", MetricKind.HISTOGRAM, "milliseconds", (*_READ, "invocation_status"),
    "Time of a call of the listener; success or failure.",
)  # fmt: skip
BACKLOGS: Final[dict[Metric, Callable[[Backlog], int]]] = {
    Metric("rocketmq_consumer_cached_messages", MetricKind.GAUGE, "messages", _READ,
           "Messages in this process that are not consumed."):
        lambda backlog: backlog.cached,
    Metric("rocketmq_consumer_cached_bytes", MetricKind.GAUGE, "bytes", _READ,
           "Size of their bodies; 0 for consumers that poll."):
        lambda backlog: backlog.cached_bytes,
    Metric("gantry_client_lag_messages", MetricKind.GAUGE, "messages", _READ,
           "Messages that are not consumed, in the queues that this process reads, as its last pulls say."):
        lambda backlog: backlog.lag,
}  # fmt: skip
ENDED: Final[Metric] = Metric(
    "gantry_client_transactions_ended_total", MetricKind.COUNTER, "messages", (*_SENT, "state"),
    "Half messages whose local transaction ended in this process: commit, rollback or unknown.",
)  # fmt: skip
CHECKS: Final[Metric] = Metric(
    "gantry_client_checks_answered_total", MetricKind.COUNTER, "requests", ("producer_group", "state"),
    "Check-backs of brokers that this process answered: commit, rollback or unknown.",
)  # fmt: skip


OUTBOXES: Final[dict[Metric, Callable[[OutboxFigures], Value]]] = {
    Metric("gantry_client_outbox_messages", MetricKind.GAUGE, "messages", ("producer_group",),
           "Messages that wait in the outbox of a database because no broker took them, as this process counted."):
        lambda outbox: outbox.rows,
    Metric("gantry_client_outbox_oldest_seconds", MetricKind.GAUGE, "seconds", ("producer_group",),
           "Time since the local transaction of the oldest of them began; 0: none waits."):
        lambda outbox: outbox.oldest_s,
}  # fmt: skip


def metrics_of(clients: Registry) -> Metrics:
    """Nothing is added up until somebody reads."""
    metrics = Metrics()
    for metric, send_value in SENDS.items():
        metrics.declare(metric, _of_topics(clients, lambda group: group.sends.items(), send_value))
    metrics.declare(ENDED, _of_groups(clients, _ended))
    metrics.declare(CHECKS, _of_groups(clients, _checks))
    for metric, read_value in READS.items():
        metrics.declare(metric, _of_topics(clients, lambda group: group.reads.items(), read_value))
    metrics.declare(PROCESS_TIME, _of_groups(clients, _processed))
    for metric, backlog_value in BACKLOGS.items():
        metrics.declare(metric, _of_backlogs(clients, backlog_value))
    for metric, outbox_value in OUTBOXES.items():
        metrics.declare(metric, _of_outboxes(clients, outbox_value))
    return metrics


def _of_topics(
    clients: Registry, topics: Callable[[ClientFigures], Iterable[tuple[str, object]]], value: Callable[..., Value]
) -> Read:
    return lambda: [
        ((topic, group.group), value(figures)) for group in clients.by_group() for topic, figures in topics(group)
    ]


def _of_groups(clients: Registry, readings: Callable[[ClientFigures], Iterable[Reading]]) -> Read:
    return lambda: [reading for group in clients.by_group() for reading in readings(group)]


def _of_backlogs(clients: Registry, value: Callable[[Backlog], int]) -> Read:
    def read() -> list[Reading]:
        found: Counter[tuple[str, ...]] = Counter()
        for group in clients.by_group():
            for backlog in group.backlogs():
                found[backlog.topic, group.group] += value(backlog)
        return list(found.items())

    return read


def _of_outboxes(clients: Registry, value: Callable[[OutboxFigures], Value]) -> Read:
    """Several clients of a group count the same table, each at its own time: the largest figure is shown."""

    def read() -> list[Reading]:
        found: dict[tuple[str, ...], Value] = {}
        for group in clients.by_group():
            for outbox in group.outboxes():
                before = found.get((group.group,), 0)
                found[(group.group,)] = max(before, value(outbox))  # type: ignore[type-var]
        return list(found.items())

    return read


def _ended(group: ClientFigures) -> Iterable[Reading]:
    for topic, figures in group.sends.items():
        if figures.committed or figures.rolled_back or figures.unknown:
            yield (topic, group.group, "commit"), figures.committed
            yield (topic, group.group, "rollback"), figures.rolled_back
            yield (topic, group.group, "unknown"), figures.unknown


def _checks(group: ClientFigures) -> Iterable[Reading]:
    return [((group.group, state.name.lower()), count) for state, count in group.checks.items()]


def _processed(group: ClientFigures) -> Iterable[Reading]:
    for topic, figures in group.reads.items():
        yield (topic, group.group, "success"), figures.processed_ms
        yield (topic, group.group, "failure"), figures.failed_ms
