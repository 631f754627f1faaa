"""The queues a pop reads: which a group may read, in which order, from which offset, and what it takes of them.

Source: PopMessageProcessor, PeekMessageProcessor, NotificationProcessor.
"""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.broker.filtering.selection import EVERYTHING, Selection
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.pop.cursors import Cursors, Place
from gantrymq.broker.pop.order_blocks import OrderBlocks
from gantrymq.broker.pop.values import Batch, Popped, Wanted, queue_offsets, with_places_in
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.errors import CorruptRecord, RemoteProtocolError, StoreError
from gantrymq.message import system_topics
from gantrymq.message.lite_topics import LITE_QUEUE, is_lite_queue, parent_of
from gantrymq.message.message_types import TYPE_PRIORITY
from gantrymq.message.system_topics import RETRY_PREFIX, pop_retry_topic
from gantrymq.protocol.files.topics import PERM_READ, TopicConfig
from gantrymq.runtime.rng import Rng
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import GetResult, GetStatus

log = logging.getLogger("gantrymq.broker")

PASS_OVER_READS: Final = 16
"""Reads that find nothing wanted, 800 messages each, before others have their turn."""
RECENT_BYTES: Final = 1 << 30
"""A group that begins at the end of a queue gets all of it while the queue's first message is not further back in the
log than this: Apache does so while it is in memory (``initPopOffsetByCheckMsgInMem``)."""

_MOVED: Final = frozenset({GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY})
_NOTHING_WANTED: Final = frozenset({GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING})


class PopQueues:
    """Reads queues at the cursors of groups. Every method raises Refused when the store cannot read."""

    def __init__(
        self, config: LiveConfig, store: MessageStore, topics: Topics, groups: Groups, offsets: ConsumerOffsets,
        cursors: Cursors, blocks: OrderBlocks, rng: Rng,
    ) -> None:  # fmt: skip
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._cursors = cursors
        self._blocks = blocks
        self._rng = rng

    # Where to look.

    def places(self, wanted: Wanted) -> list[tuple[str, int]]:
        """(topic, queue id) to look at, in this order. Now and then retried messages come first, so that a topic that
        is never empty does not keep them away. The queues of a topic of type PRIORITY come in the order of their
        priorities.
        """
        if wanted.queues is not None:
            return [(queue, LITE_QUEUE) for queue in wanted.queues]
        chance = self._rng.below(100)
        config = self._config.pop
        by_priority = self._goes_by_priority(wanted, chance)
        if wanted.queue_id >= 0:
            places = [(wanted.topic, wanted.queue_id)]
        elif by_priority:
            places = self._queues(wanted.topic, 0)
            if config.priority_order_asc:
                places.reverse()
        else:
            places = self._queues(wanted.topic, chance)
        if wanted.order:
            return places
        # The texts of an answer name one queue 0 of a retry topic, so only one of the two kinds can take part.
        v1_too = config.retrieve_message_from_pop_retry_topic_v1
        v2 = config.enable_retry_topic_v2 and not (v1_too and chance % 2 == 0)
        retry = self._queues(pop_retry_topic(wanted.topic, wanted.group, v2=v2), chance)
        first = config.pop_from_retry_probability_for_priority if by_priority else config.pop_from_retry_probability
        return [*retry, *places] if chance < first else [*places, *retry]

    def _goes_by_priority(self, wanted: Wanted, chance: int) -> bool:
        """Whether this pop begins with the highest priority. An orderly one does not: each queue is for itself."""
        topic = self._topics.get(wanted.topic)
        if wanted.order or topic is None or topic.message_type != TYPE_PRIORITY:
            return False
        group = self._groups.get(wanted.group)
        return group is None or chance < group.priority_factor

    def _queues(self, topic: str, start: int) -> list[tuple[str, int]]:
        known = self._topics.get(topic)
        count = known.read_queue_nums if known is not None else 0
        return [(topic, (start + number) % count) for number in range(count)]

    # Taking.

    def take(self, wanted: Wanted, popped: Popped) -> None:
        """Add to ``popped`` what the queues have of what is wanted."""
        for topic, queue_id in self.places(wanted):
            self._take_of(wanted, topic, queue_id, popped)

    def _take_of(self, wanted: Wanted, topic: str, queue_id: int, popped: Popped) -> None:
        place = (wanted.group, topic, queue_id)
        position = self._position(place, wanted.from_start)
        if wanted.order:
            self._blocks.read_from(topic, wanted.group, queue_id, position)
            until = self._blocks.blocked_until(topic, wanted.group, queue_id, wanted.attempt_id, popped.now_ms)
            if until is not None:
                popped.blocked_until = min(until, popped.blocked_until or until)
                return
        room = wanted.count - popped.count
        if room <= 0:
            popped.rest += max(0, self._store.queue_range(topic, queue_id)[1] - position)
            return
        self._read_wanted(place, position, room, wanted, popped)

    def _position(self, place: Place, from_start: bool) -> int:
        """Where the group goes on; a reset counts from here on."""
        group, topic, queue_id = place
        reset = self._offsets.resets.pop(place, None) if self._offsets.resets else None
        if reset is not None:
            self._cursors.jump(place, reset)
            self._blocks.open(topic, group, queue_id)
        position = self._cursors.position(place)
        if position is None:
            position = self._first_position(topic, queue_id, from_start)
            self._cursors.jump(place, position)
        return position

    def _read_wanted(self, place: Place, position: int, room: int, wanted: Wanted, popped: Popped) -> None:
        """Read up to ``room`` messages from ``position`` on, and pass over what is not wanted."""
        group, topic, queue_id = place
        selection = wanted.selection
        result = self._read(topic, queue_id, position, room, selection)
        if result.status in _MOVED:
            log.warning("%s pops %s/%d from %d: %s", group, topic, queue_id, position, result.status.value)
            position = result.next_offset
            self._cursors.jump(place, position)
            result = self._read(topic, queue_id, position, room, selection)
        begin = position
        for _ in range(PASS_OVER_READS):
            if result.status not in _NOTHING_WANTED or not position < result.next_offset < result.max_offset:
                break
            position = result.next_offset
            result = self._read(topic, queue_id, position, room, selection)
        batch = _batch(topic, queue_id, position, result, wanted.queues is not None) if result.count else None
        if batch is not None and batch.offsets:
            popped.batches.append(batch)
        elif result.status in _NOTHING_WANTED and result.next_offset > begin:
            self._cursors.settle(self._cursors.take(place, result.next_offset))
            popped.passed_over = popped.passed_over or result.next_offset < result.max_offset
        popped.rest += max(0, result.max_offset - result.next_offset)

    def _first_position(self, topic: str, queue_id: int, from_start: bool) -> int:
        first, end = self._store.queue_range(topic, queue_id)
        if from_start or topic.startswith(RETRY_PREFIX):
            return first
        entry = self._store.entry(topic, queue_id, 0) if self._config.pop.init_pop_offset_by_check_msg_in_mem else None
        if entry is not None and self._store.max_log_offset - entry.log_offset <= RECENT_BYTES:
            return 0
        return max(0, end - 1)

    def _read(self, topic: str, queue_id: int, position: int, count: int, selection: Selection) -> GetResult:
        max_bytes = self._config.pull.max_transfer_bytes_on_message_in_memory
        try:
            return self._store.get(
                topic, queue_id, position, count, max_bytes, selection.tag_codes, selection.wants, selection.terms
            )
        except StoreError as error:
            raise Refused(Refusal.FAILED, f"reading failed: {error}") from error

    # Looking without taking.

    def look(self, wanted: Wanted, popped: Popped) -> None:
        """Add to ``popped`` what a pop could take now."""
        for topic, queue_id in self.places(wanted):
            position = self._cursors.position((wanted.group, topic, queue_id))
            first, end = self._store.queue_range(topic, queue_id)
            position = max(first, position or 0)
            popped.rest += max(0, end - position)
            room = wanted.count - popped.count
            if room > 0 and position < end:
                result = self._read(topic, queue_id, position, room, EVERYTHING)
                if result.count:
                    popped.batches.append(_batch(topic, queue_id, position, result))

    def has_more(self, group: str, queue: str) -> bool:
        """Whether there is something in the queue of a lite topic that the group has not consumed."""
        position = self._cursors.position((group, queue, LITE_QUEUE))
        return self._store.queue_range(queue, LITE_QUEUE)[1] > (position or 0)

    def has_message(self, wanted: Wanted, now: int) -> bool:
        """Whether a pop could find something at ``now``, by the steady time."""
        for topic, queue_id in self.places(wanted):
            if wanted.order and self._blocks.blocked_until(topic, wanted.group, queue_id, wanted.attempt_id, now):
                continue
            first, end = self._store.queue_range(topic, queue_id)
            position = self._cursors.position((wanted.group, topic, queue_id))
            if end > max(first, position or 0):
                return True
        return False


def _batch(topic: str, queue_id: int, position: int, result: GetResult, lite: bool = False) -> Batch:
    """``lite``: the queue is that of a lite topic."""
    data = result.data
    try:
        if lite:
            data = with_places_in(topic, data)
        offsets = queue_offsets(data)
    except (CorruptRecord, RemoteProtocolError) as error:
        raise Refused(Refusal.FAILED, f"reading failed: {error}") from error
    return Batch(topic, queue_id, position, result.next_offset, offsets, data)


MIN_QUEUE: Final = -1


class PopChecks:
    """What POP_MESSAGE, PEEK_MESSAGE and NOTIFICATION share, in Apache's order. Every method raises Refused."""

    def __init__(self, config: LiveConfig, topics: Topics, groups: Groups) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups

    def may_read(self, topic_name: str, queue_id: int, group_name: str) -> None:
        """Whether the group may pop, peek at or wait for a queue of the topic. ``queue_id``: -1 for any."""
        if not self._config.identity.broker_permission & PERM_READ:
            raise Refused(
                Refusal.NOT_PERMITTED, f"the broker[{self._config.network.broker_ip1}] pop message is forbidden"
            )
        topic = self.topic(topic_name)
        if not topic.perm & PERM_READ or topic_name in system_topics.TRANSACTION_TOPICS:
            raise Refused(Refusal.NOT_PERMITTED, f"the topic[{topic_name}] peeking message is forbidden")
        if not MIN_QUEUE <= queue_id < topic.read_queue_nums:
            raise Refused(Refusal.PARAMETER_INVALID, _illegal_queue(topic, queue_id))
        group = self._groups.find(group_name)
        if group is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"subscription group [{group_name}] does not exist")
        if self._groups.is_forbidden(group_name, topic_name):
            raise Refused(
                Refusal.NOT_PERMITTED, f"the consumer group[{group_name}] is forbidden for topic[{topic_name}]"
            )
        if not group.consume_enable:
            raise Refused(Refusal.NOT_PERMITTED, f"subscription group no permission, {group_name}")

    def topic(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(Refusal.TOPIC_UNKNOWN, f"topic[{name}] not exist, apply first please!")
        return topic

    def queue(self, topic_name: str, queue_id: int) -> None:
        """Of an acknowledgement: it names one queue."""
        topic = self._topics.get(topic_name)
        if topic is None and is_lite_queue(topic_name):
            self.topic(parent_of(topic_name))
            return
        topic = topic or self.topic(topic_name)
        if not 0 <= queue_id < topic.read_queue_nums:
            raise Refused(Refusal.MESSAGE_ILLEGAL, _illegal_queue(topic, queue_id))


def _illegal_queue(topic: TopicConfig, queue_id: int) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{topic.topic_name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}]"
    )
