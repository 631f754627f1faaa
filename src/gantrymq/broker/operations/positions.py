"""Where queues begin and end, and how far consumer groups have read them.

Source: ConsumerManageProcessor, AdminBrokerProcessor; docs/protocol.md#consumer-offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import Boundary

RECENT_BYTES: Final = 256 * 1024 * 1024
"""A first message this close to the end of the log counts as recent (see ``Positions.of_group``)."""


class Positions:
    """Offsets of queues and groups."""

    def __init__(self, store: MessageStore, topics: Topics, groups: Groups, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets

    # Of groups.

    def of_group(self, group: str, topic: str, queue_id: int, *, zero_if_new: bool = True) -> int:
        """Where the group goes on. Raises Refused when it has no offset.

        A group without an offset on a young queue that still has its first, recent message starts at 0 (unless
        ``zero_if_new`` is false), like Apache's: else a new group would miss what was sent while it started.
        """
        offset = self._offsets.get(group, topic, queue_id)
        if offset is not None:
            return offset
        if zero_if_new and self._starts_at_zero(topic, queue_id):
            return 0
        raise Refused(Refusal.NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

    def _starts_at_zero(self, topic: str, queue_id: int) -> bool:
        first, end = self._store.queue_range(topic, queue_id)
        if first > 0:
            return False
        if end == 0:
            return True
        entry = self._store.entry(topic, queue_id, 0)
        return entry is not None and self._store.max_log_offset - entry.log_offset <= RECENT_BYTES

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """The group goes on at ``offset``. False when it was reset and has not heard of it: then nothing is committed.
        Raises Refused.
        """
        if self._groups.find(group) is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"Group {group} not exist!")
        if not self._topics.exists(topic):
            raise Refused(Refusal.TOPIC_UNKNOWN, f"Topic {topic} not exist!")
        if queue_id < 0 or offset < 0:
            raise Refused(Refusal.PARAMETER_INVALID, "queueId and commitOffset must not be negative")
        if (group, topic, queue_id) in self._offsets.resets:
            return False
        self._offsets.commit(group, topic, queue_id, offset)
        return True

    def of_all_groups(self) -> Mapping[str, Any]:
        """What ``config/consumerOffset.json`` holds."""
        return self._offsets.content()

    # Of queues.

    def end(self, topic: str, queue_id: int) -> int:
        """Behind the last message."""
        return self._store.queue_range(topic, queue_id)[1]

    def begin(self, topic: str, queue_id: int) -> int:
        """Of the first message that is still there."""
        return self._store.queue_range(topic, queue_id)[0]

    def by_time(self, topic: str, queue_id: int, timestamp: int, boundary: Boundary) -> int:
        """Of the message that a time (ms since 1970) names."""
        return self._store.offset_by_time(topic, queue_id, timestamp, boundary)

    def earliest_store_time(self, topic: str, queue_id: int) -> int | None:
        """ms since 1970; None when the queue is empty."""
        first, end = self._store.queue_range(topic, queue_id)
        return self._store.store_time(topic, queue_id, first) if first < end else None
