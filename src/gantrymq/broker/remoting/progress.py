"""How far topics and groups are, as tools ask: 202, 208, 300, 303, 308, 314, 317, 321, 343.

Source: AdminBrokerProcessor.
"""

from __future__ import annotations

from typing import Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.upkeep.statistics import TOPIC_PUT_NUMS, Statistics
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.groups import GroupList
from gantrymq.protocol.bodies.progress import (
    ConsumeQueueEntries,
    ConsumeQueueEntry,
    ConsumeStats,
    ConsumeStatsList,
    CorrectionOffsets,
    QueueProgress,
    TimeSpan,
    TimeSpans,
    TopicOffset,
    TopicStats,
    key_of,
)
from gantrymq.protocol.bodies.topics import TopicConfig, TopicList
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers import tools
from gantrymq.protocol.headers.topics import TopicOnly
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

NEVER_CORRECTED: Final = 0x7FFFFFFFFFFFFFFF
"""Correction offset of a queue in which the group that is compared is behind all others."""
MAX_ENTRIES: Final = 10_000
"""Entries of a consume queue in one answer."""


class ProgressProcessor:
    """Questions about positions; only CLONE_GROUP_OFFSET changes something."""

    def __init__(
        self,
        config: BrokerConfig,
        address: str,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        consumers: ConsumerGroups,
        offsets: ConsumerOffsets,
        statistics: Statistics,
        clock: Clock,
    ) -> None:
        self._config = config
        self._address = address
        self._store = store
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._statistics = statistics
        self._clock = clock

    def topic_stats(self, session: ClientSession, command: Command) -> bytes:
        """GET_TOPIC_STATS_INFO."""
        config = self._topic(command.header(TopicOnly).topic)
        table: dict[str, TopicOffset] = {}
        for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
            first, end = self._store.queue_range(config.topic_name, queue_id)
            last = self._store.store_time(config.topic_name, queue_id, end - 1) if end > 0 else None
            table[self._key(config, queue_id)] = TopicOffset(
                min_offset=first, max_offset=end, last_update_timestamp=last or 0
            )
        tps = self._statistics.per_second(TOPIC_PUT_NUMS, config.topic_name)
        body = TopicStats(offset_table=table, topic_put_tps=tps)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def _topic(self, name: str) -> TopicConfig:
        config = self._topics.get(name)
        if config is None:
            raise Refused(Refusal.TOPIC_UNKNOWN, f"topic[{name}] not exist")
        return config

    def _key(self, topic: TopicConfig, queue_id: int) -> str:
        return key_of(MessageQueue(topic.topic_name, self._config.broker_name, queue_id))

    # Groups.

    def consume_stats(self, session: ClientSession, command: Command) -> bytes:
        """GET_CONSUME_STATS."""
        header = command.header(tools.GetConsumeStats)
        wanted = [header.topic] if header.topic else [name for name in (header.topic_list or "").split(";") if name]
        table: dict[str, QueueProgress] = {}
        tps = 0.0
        for name in dict.fromkeys(wanted or self._offsets.topics_of(header.consumer_group)):
            topic = self._topics.get(name)
            if topic is not None and self._reads(header.consumer_group, name):
                table |= self._progress(header.consumer_group, topic, topic.read_queue_nums)
                tps += self._statistics.got_per_second(name, header.consumer_group)
        body = ConsumeStats(offset_table=table, consume_tps=tps)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def _reads(self, group_name: str, topic: str) -> bool:
        """False for a topic that a group which is online has given up."""
        group = self._consumers.get(group_name)
        return group is None or not group.subscriptions or topic in group.subscriptions

    def _progress(self, group: str, topic: TopicConfig, queues: int) -> dict[str, QueueProgress]:
        name = topic.topic_name
        table: dict[str, QueueProgress] = {}
        for queue_id in range(queues):
            done = self._offsets.get(group, name, queue_id) or 0
            last = self._store.store_time(name, queue_id, done - 1) if done > 0 else None
            table[self._key(topic, queue_id)] = QueueProgress(
                broker_offset=self._store.queue_range(name, queue_id)[1],
                consumer_offset=done,
                pull_offset=max(done, self._offsets.pulled(group, name, queue_id)),
                last_timestamp=last or 0,
            )
        return table

    def broker_consume_stats(self, session: ClientSession, command: Command) -> bytes:
        """GET_BROKER_CONSUME_STATS: every group, every topic it has offsets on."""
        ordered_only = command.header(tools.BrokerConsumeStats).is_order
        groups: list[dict[str, list[ConsumeStats]]] = []
        behind = pulled = 0
        for group in self._groups.names():
            found: list[ConsumeStats] = []
            for name in self._offsets.topics_of(group):
                topic = self._topics.get(name)
                if topic is None or (ordered_only and not topic.order) or not self._reads(group, name):
                    continue
                table = self._progress(group, topic, topic.write_queue_nums)
                found.append(ConsumeStats(offset_table=table, consume_tps=self._statistics.got_per_second(name, group)))
                behind += sum(queue.broker_offset - queue.consumer_offset for queue in table.values())
                pulled += sum((queue.pull_offset or 0) - queue.consumer_offset for queue in table.values())
            groups.append({group: found})
        body = ConsumeStatsList(
            consume_stats_list=groups, broker_addr=self._address, total_diff=behind, total_inflight_diff=pulled
        )
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def who_consumes(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_TOPIC_CONSUME_BY_WHO: groups that subscribe to a topic now, or have offsets on it."""
        topic = command.header(TopicOnly).topic
        groups = dict.fromkeys([*self._consumers.groups_reading(topic), *self._offsets.groups_of(topic)])
        return encode_response(command, ResponseCode.SUCCESS, body=GroupList(group_list=list(groups)).encode())

    def topics_of_group(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_TOPICS_BY_CONSUMER: topics that a group has offsets on."""
        topics = self._offsets.topics_of(command.header(tools.GroupTopics).group)
        return encode_response(command, ResponseCode.SUCCESS, body=TopicList(topic_list=topics).encode())

    def time_span(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_CONSUME_TIME_SPAN."""
        header = command.header(tools.TopicAndGroup)
        config = self._topic(header.topic)
        spans = [self._span(config, queue_id, header.group) for queue_id in range(config.write_queue_nums)]
        return encode_response(command, ResponseCode.SUCCESS, body=TimeSpans(consume_time_span_set=spans).encode())

    def _span(self, topic: TopicConfig, queue_id: int, group: str) -> TimeSpan:
        name = topic.topic_name
        first, end = self._store.queue_range(name, queue_id)
        done = self._offsets.get(group, name, queue_id) or 0
        oldest = self._time(name, queue_id, first)
        return TimeSpan(
            message_queue=MessageQueue(name, self._config.broker_name, queue_id),
            min_time_stamp=oldest,
            max_time_stamp=self._time(name, queue_id, end - 1),
            consume_time_stamp=self._time(name, queue_id, done - 1) if done > 0 else oldest,
            delay_time=self._clock.wall_ms() - self._time(name, queue_id, done) if done < end else 0,
        )

    def _time(self, topic: str, queue_id: int, offset: int) -> int:
        found = self._store.store_time(topic, queue_id, offset)
        return -1 if found is None else found

    # Correcting offsets.

    def correction(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_CORRECTION_OFFSET: by queue the least offset of all groups but the filtered ones."""
        header = command.header(tools.CorrectionOffset)
        left_out = {name for name in (header.filter_groups or "").split(",") if name}
        least: dict[int, int] = {}
        for group in self._offsets.groups_of(header.topic):
            if group not in left_out:
                for queue_id, offset in self._offsets.of_topic(group, header.topic).items():
                    end = self._store.queue_range(header.topic, queue_id)[1]
                    if offset <= end:
                        least[queue_id] = min(offset, least.get(queue_id, NEVER_CORRECTED))
        for queue_id, offset in self._offsets.of_topic(header.compare_group, header.topic).items():
            if least.get(queue_id, NEVER_CORRECTED) > offset:
                least[queue_id] = NEVER_CORRECTED
        body = CorrectionOffsets(correction_offsets=least)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def clone_offsets(self, session: ClientSession, command: Command) -> bytes:
        """CLONE_GROUP_OFFSET: one group goes on where another one is."""
        header = command.header(tools.CloneOffsets)
        for topic in [header.topic] if header.topic else self._offsets.topics_of(header.src_group):
            if not self._topics.exists(topic) or (not header.offline and not self._reads(header.dest_group, topic)):
                continue
            for queue_id, offset in self._offsets.of_topic(header.src_group, topic).items():
                self._offsets.commit(header.dest_group, topic, queue_id, offset)
        return encode_response(command, ResponseCode.SUCCESS)

    # Queues.

    def consume_queue(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_CONSUME_QUEUE."""
        header = command.header(tools.QueryConsumeQueue)
        first, end = self._store.queue_range(header.topic, header.queue_id)
        if not self._topics.exists(header.topic) or not end:
            raise Refused(Refusal.FAILED, f"{header.queue_id}@{header.topic} is not exist!")
        start = header.index if header.index >= 0 else max(0, end - header.count)
        entries: list[ConsumeQueueEntry] = []
        for offset in range(max(start, first), min(start + min(header.count, MAX_ENTRIES), end)):
            entry = self._store.entry(header.topic, header.queue_id, offset)
            if entry is not None:
                entries.append(
                    ConsumeQueueEntry(physic_offset=entry.log_offset, physic_size=entry.size, tags_code=entry.tags_code)
                )
        online = self._consumers.get(header.consumer_group or "")
        subscription = online.subscriptions.get(header.topic) if online is not None else None
        body = ConsumeQueueEntries(
            queue_data=entries, min_queue_index=first, max_queue_index=end,
            subscription_data=subscription.data if subscription is not None else None,
        )  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())
