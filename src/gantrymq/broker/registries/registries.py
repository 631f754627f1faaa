"""All registries of a broker together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.registries.clients import ConsumerGroups, ProducerGroups
from gantrymq.broker.registries.filters import ConsumerFilters
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.queue_locks import QueueLocks
from gantrymq.broker.registries.topics import Topics
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk

TOPICS_FILE: Final = "config/topics.json"
GROUPS_FILE: Final = "config/subscriptionGroup.json"
OFFSETS_FILE: Final = "config/consumerOffset.json"
FILTERS_FILE: Final = "config/consumerFilter.json"


@dataclass(frozen=True, slots=True)
class Registries:
    """What a broker knows beside its messages."""

    topics: Topics
    groups: Groups
    offsets: ConsumerOffsets
    filters: ConsumerFilters
    producers: ProducerGroups
    consumers: ConsumerGroups
    locks: QueueLocks

    def follow(self) -> None:
        """The durable tables are those of another broker from now on, and nothing is added to them here."""
        self.topics.follows = self.groups.follows = self.offsets.follows = True

    def lead(self, epoch: int = 0) -> None:
        """They are this broker's own. Raises StoreError when what each broker has cannot be added. ``epoch``: for which
        it was elected; 0: the settings say that it is primary."""
        self.offsets.follows = False
        self.topics.lead(epoch)
        self.groups.lead()


def open_registries(config: LiveConfig, disk: Disk, clock: Clock, path: Callable[[str], str]) -> Registries:
    """Read what is kept in files. ``path``: where the file of a name lies. Raises ConfigError when a file cannot be
    read.
    """
    topics = Topics(config, disk, clock, path(TOPICS_FILE))
    groups = Groups(
        disk, clock, path(GROUPS_FILE), auto_create=config.groups.auto_create_subscription_group,
        max_groups=config.groups.max_consumer_groups,
    )  # fmt: skip
    config.changed.append(
        lambda: groups.allow_creation(config.groups.auto_create_subscription_group, config.groups.max_consumer_groups)
    )
    config.changed.append(topics.permission_changed)
    return Registries(
        topics,
        groups,
        ConsumerOffsets(disk, path(OFFSETS_FILE), clock),
        ConsumerFilters(disk, clock, path(FILTERS_FILE)),
        ProducerGroups(),
        ConsumerGroups(),
        QueueLocks(),
    )
