"""Metrics of the broker's clients, topics and groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.metrics.labels import REMOTING, flag, is_system_group
from gantrymq.broker.registries.registries import Registries
from gantrymq.message.versions import version_name
from gantrymq.observability.metrics import Metric, MetricKind, Metrics, Reading, single

PRODUCERS: Final[Metric] = Metric(
    "rocketmq_producer_connections", MetricKind.GAUGE, "connections", ("language", "version", "protocol_type"),
    "Members of producer groups that are online; version is the one that the client reports.",
)  # fmt: skip
CONSUMERS: Final[Metric] = Metric(
    "rocketmq_consumer_connections", MetricKind.GAUGE, "connections",
    ("consumer_group", "language", "version", "consume_mode", "is_system", "protocol_type"),
    "Members of a consumer group that are online; consume_mode is push, pull or pop.",
)  # fmt: skip
PERMISSION: Final[Metric] = Metric(
    "rocketmq_broker_permission", MetricKind.GAUGE, "", (), "What clients may do: 4 read, 2 write, 6 both."
)
TOPICS: Final[Metric] = Metric(
    "rocketmq_topic_number", MetricKind.GAUGE, "topics", (), "Topics, with those of the system."
)
GROUPS: Final[Metric] = Metric(
    "rocketmq_consumer_group_number", MetricKind.GAUGE, "groups", (), "Consumer groups that the broker has settings of."
)

CONFLICTS: Final[Metric] = Metric(
    "gantry_subscription_conflicts", MetricKind.GAUGE, "selectors", ("consumer_group", "topic"),
    "Different selectors that members of a group have for one topic; only where there are several. The group skips "
    "messages then.",
)  # fmt: skip


def declare_clients(metrics: Metrics, config: LiveConfig, registries: Registries) -> None:
    """Declare the metrics of this module."""
    metrics.declare(PRODUCERS, lambda: _producers(registries))
    metrics.declare(CONSUMERS, lambda: _consumers(registries))
    metrics.declare(CONFLICTS, lambda: _conflicts(registries))
    metrics.declare(PERMISSION, single(lambda: config.identity.broker_permission))
    metrics.declare(TOPICS, single(lambda: len(registries.topics.names())))
    metrics.declare(GROUPS, single(lambda: len(registries.groups.names())))


def _producers(registries: Registries) -> Iterable[Reading]:
    found: Counter[tuple[str, ...]] = Counter()
    for name in registries.producers.groups():
        for member in registries.producers.members(name):
            found[member.language.lower(), version_name(member.version).lower(), REMOTING] += 1
    return list(found.items())


def _consumers(registries: Registries) -> Iterable[Reading]:
    found: Counter[tuple[str, ...]] = Counter()
    for name in registries.consumers.groups():
        group = registries.consumers.get(name)
        if group is None:
            continue
        mode, system = group.consume_type.name.lower(), flag(is_system_group(name))
        for member in group.members.values():
            version = version_name(member.version).lower()
            found[name, member.language.lower(), version, mode, system, REMOTING] += 1
    return list(found.items())


def _conflicts(registries: Registries) -> Iterable[Reading]:
    found: list[Reading] = []
    for name in registries.consumers.groups():
        group = registries.consumers.get(name)
        conflicts = group.conflicts() if group is not None and len(group.wants) > 1 else {}
        found += [((name, topic), len(selectors)) for topic, selectors in conflicts.items()]
    return found
