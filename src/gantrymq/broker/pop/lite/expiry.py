"""Deletes lite topics to which nothing was sent for longer than their topic says. Source: AbstractLiteLifecycleManager
of 5.5.0; docs/protocol.md#lite-topics.
"""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.broker.pop.lite.pops import LitePops
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.errors import StoreError
from gantrymq.message.lite_topics import LITE_QUEUE, is_lite_queue, parent_of
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

log = logging.getLogger("gantrymq.broker")

EXPIRY: Final = "lite.topic.expiration"
"""Attribute of a topic: minutes without a message; without it, or with -1, its lite topics stay."""
LEAST_MINUTES: Final = 15
"""A lite topic lives at least so long. Source: BrokerConfig.minLiteTTl."""
LOOK_SECONDS: Final = 120.0
"""Between two looks. Source: BrokerConfig.liteTtlCheckInterval."""
AT_ONCE: Final = 200
"""Lite topics that are deleted at one look."""


class LiteExpiry:
    """Looks at all lite topics."""

    def __init__(
        self, store: MessageStore, topics: Topics, offsets: ConsumerOffsets, pops: LitePops, clock: Clock
    ) -> None:  # fmt: skip
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._pops = pops
        self._clock = clock

    def look(self) -> None:
        """Delete those whose time is over, and forget readers that are silent."""
        self._pops.expire()
        now_ms = self._clock.wall_ms()
        over = [queue for queue in self._store.topics() if is_lite_queue(queue) and self._is_over(queue, now_ms)]
        for queue in sorted(over)[:AT_ONCE]:
            self._delete(queue)

    def _is_over(self, queue: str, now_ms: int) -> bool:
        topic = self._topics.get(parent_of(queue))
        minutes = -1 if topic is None else minutes_of(topic)
        last = self._store.store_time(queue, LITE_QUEUE, self._store.queue_range(queue, LITE_QUEUE)[1] - 1)
        if minutes <= 0 or self._store.next_offset(queue, LITE_QUEUE) != self._store.queue_range(queue, LITE_QUEUE)[1]:
            return False
        return last is None or now_ms - last > max(minutes, LEAST_MINUTES) * 60_000

    def _delete(self, queue: str) -> None:
        log.info("the lite topic %s has had no message for too long; it is deleted", queue)
        self._pops.deleted(queue)
        self._offsets.forget_topic(queue)
        self._store.delete_topic(queue, _ended)


def minutes_of(topic: TopicConfig) -> int:
    """What the topic says; -1 when it says nothing that is a number."""
    value = (topic.attributes or {}).get(EXPIRY, "")
    return int(value) if value.isascii() and value.isdecimal() else -1


def _ended(error: StoreError | None) -> None:
    if error is not None:
        log.error("a lite topic that is over stays: %s", error)
