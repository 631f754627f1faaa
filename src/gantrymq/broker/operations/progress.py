"""The progress of topics and groups, for tools. Source: AdminBrokerProcessor."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.registries import Registries
from gantrymq.broker.upkeep.statistics import TOPIC_PUT_NUMS, Statistics
from gantrymq.message.progress import ConsumeQueueEntry, QueueEntries, QueueProgress, TimeSpan, TopicOffset
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

NEVER_CORRECTED: Final = 0x7FFFFFFFFFFFFFFF
"""Correction offset of a queue in which the group that is compared is behind all others."""
MAX_ENTRIES: Final = 2_000
"""Entries of a consume queue in one answer."""

QUEUES_AT_ONCE: Final = 256
"""Queues of one piece of an answer."""


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """What the queues of a topic hold."""

    queues: dict[MessageQueue, TopicOffset]
    tps: float
    """Messages that the topic gets in a second."""


@dataclass(frozen=True, slots=True)
class GroupTopicProgress:
    """How far a group is in some queues of a topic. A group may have many thousands of queues, so its progress is a
    sequence of these, between which others are served."""

    group: str
    topic: str
    queues: dict[MessageQueue, QueueProgress]
    tps: float
    """Messages that the group gets of the topic in a second."""


class ProgressQuestions:
    """Questions about positions; only ``clone_offsets`` changes something."""

    def __init__(
        self,
        broker_name: str,
        address: str,
        store: MessageStore,
        registries: Registries,
        statistics: Statistics,
        clock: Clock,
    ) -> None:
        self._broker_name = broker_name
        self._address = address
        self._store = store
        self._topics = registries.topics
        self._groups = registries.groups
        self._consumers = registries.consumers
        self._offsets = registries.offsets
        self._statistics = statistics
        self._clock = clock

    def of_topic(self, topic: str) -> TopicOffsets:
        """What the queues of a topic hold."""
        config = self._topic(topic)
        table: dict[MessageQueue, TopicOffset] = {}
        for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
            first, end = self._store.queue_range(config.topic_name, queue_id)
            last = self._store.store_time(config.topic_name, queue_id, end - 1) if end > 0 else None
            table[MessageQueue(config.topic_name, self._broker_name, queue_id)] = TopicOffset(
                min_offset=first, max_offset=end, last_update_timestamp=last or 0
            )
        return TopicOffsets(table, self._statistics.per_second(TOPIC_PUT_NUMS, config.topic_name))

    def _topic(self, name: str) -> TopicConfig:
        config = self._topics.get(name)
        if config is None:
            raise Refused(Refusal.TOPIC_UNKNOWN, f"topic[{name}] not exist")
        return config

    # Groups.

    def of_group(self, group: str, topics: Sequence[str]) -> Iterator[GroupTopicProgress]:
        """How far a group is, topic by topic. ``topics``: empty for every topic that the group has offsets on."""
        for name in dict.fromkeys(topics or self._offsets.topics_of(group)):
            topic = self._topics.get(name)
            if topic is not None and self._reads(group, name):
                yield from self._progress(group, topic, topic.read_queue_nums)

    def _reads(self, group_name: str, topic: str) -> bool:
        """False for a topic that a group which is online has given up."""
        group = self._consumers.get(group_name)
        return group is None or not group.subscriptions or topic in group.subscriptions

    def _progress(self, group: str, topic: TopicConfig, queues: int) -> Iterator[GroupTopicProgress]:
        """In pieces of some queues, the rate with the first."""
        name = topic.topic_name
        tps = self._statistics.got_per_second(name, group)
        for first in range(0, max(queues, 1), QUEUES_AT_ONCE):
            table: dict[MessageQueue, QueueProgress] = {}
            for queue_id in range(first, min(first + QUEUES_AT_ONCE, queues)):
                done = self._offsets.get(group, name, queue_id) or 0
                last = self._store.store_time(name, queue_id, done - 1) if done > 0 else None
                table[MessageQueue(name, self._broker_name, queue_id)] = QueueProgress(
                    broker_offset=self._store.queue_range(name, queue_id)[1],
                    consumer_offset=done,
                    pull_offset=max(done, self._offsets.pulled(group, name, queue_id)),
                    last_timestamp=last or 0,
                )
            yield GroupTopicProgress(group, name, table, tps if first == 0 else 0.0)

    def of_all_groups(self, *, ordered_only: bool) -> Iterator[GroupTopicProgress]:
        """How far every group is in every topic that it has offsets on; of a group without any a piece without a topic.
        ``ordered_only``: in ordered topics only."""
        for group in self._groups.names():
            yield GroupTopicProgress(group, "", {}, 0.0)
            for name in self._offsets.topics_of(group):
                topic = self._topics.get(name)
                if topic is None or (ordered_only and not topic.order) or not self._reads(group, name):
                    continue
                yield from self._progress(group, topic, topic.write_queue_nums)

    @property
    def address(self) -> str:
        """Of this broker."""
        return self._address

    def groups_of(self, topic: str) -> list[str]:
        """Groups that subscribe to a topic now, or have offsets on it."""
        return list(dict.fromkeys([*self._consumers.groups_reading(topic), *self._offsets.groups_of(topic)]))

    def topics_of(self, group: str) -> list[str]:
        """Topics that a group has offsets on."""
        return self._offsets.topics_of(group)

    def time_spans(self, topic: str, group: str) -> list[TimeSpan]:
        """From when the messages of each queue are, and which of them the group has consumed."""
        config = self._topic(topic)
        return [self._span(config, queue_id, group) for queue_id in range(config.write_queue_nums)]

    def _span(self, topic: TopicConfig, queue_id: int, group: str) -> TimeSpan:
        name = topic.topic_name
        first, end = self._store.queue_range(name, queue_id)
        done = self._offsets.get(group, name, queue_id) or 0
        oldest = self._time(name, queue_id, first)
        return TimeSpan(
            message_queue=MessageQueue(name, self._broker_name, queue_id),
            min_time_stamp=oldest,
            max_time_stamp=self._time(name, queue_id, end - 1),
            consume_time_stamp=self._time(name, queue_id, done - 1) if done > 0 else oldest,
            delay_time=self._clock.wall_ms() - self._time(name, queue_id, done) if done < end else 0,
        )

    def _time(self, topic: str, queue_id: int, offset: int) -> int:
        found = self._store.store_time(topic, queue_id, offset)
        return -1 if found is None else found

    # Correcting offsets.

    def correction(self, topic: str, compare_group: str, left_out: Collection[str]) -> dict[int, int]:
        """For each queue the smallest offset of all groups, without those that are left out."""
        least: dict[int, int] = {}
        for group in self._offsets.groups_of(topic):
            if group not in left_out:
                for queue_id, offset in self._offsets.of_topic(group, topic).items():
                    end = self._store.queue_range(topic, queue_id)[1]
                    if offset <= end:
                        least[queue_id] = min(offset, least.get(queue_id, NEVER_CORRECTED))
        for queue_id, offset in self._offsets.of_topic(compare_group, topic).items():
            if least.get(queue_id, NEVER_CORRECTED) > offset:
                least[queue_id] = NEVER_CORRECTED
        return least

    def clone_offsets(self, source: str, target: str, topic: str | None, *, offline: bool) -> None:
        """Copy the offsets of one group to another. ``topic``: None for every topic of ``source``. Unless ``offline``,
        topics for which ``target`` is online and which it does not read are skipped.
        """
        for name in [topic] if topic else self._offsets.topics_of(source):
            if not self._topics.exists(name) or (not offline and not self._reads(target, name)):
                continue
            for queue_id, offset in self._offsets.of_topic(source, name).items():
                self._offsets.commit(target, name, queue_id, offset)

    # Queues.

    def entries(self, topic: str, queue_id: int, index: int, count: int, group: str | None) -> QueueEntries:
        """``count`` entries of a consume queue from ``index`` on, which is negative for the last ones; beside them what
        ``group`` wants of the topic.
        """
        first, end = self._store.queue_range(topic, queue_id)
        if not self._topics.exists(topic) or not end:
            raise Refused(Refusal.FAILED, f"{queue_id}@{topic} is not exist!")
        start = index if index >= 0 else max(0, end - count)
        found: list[ConsumeQueueEntry] = []
        for offset in range(max(start, first), min(start + min(count, MAX_ENTRIES), end)):
            entry = self._store.entry(topic, queue_id, offset)
            if entry is not None:
                found.append(
                    ConsumeQueueEntry(physic_offset=entry.log_offset, physic_size=entry.size, tags_code=entry.tags_code)
                )
        online = self._consumers.get(group or "")
        subscription = online.subscriptions.get(topic) if online is not None else None
        return QueueEntries(
            queue_data=found, min_queue_index=first, max_queue_index=end,
            subscription_data=subscription.data if subscription is not None else None,
        )  # fmt: skip
