"""Messages to lite topics: which queue each takes a place in, beside that of its topic.

Source: SendMessageProcessor, LmqDispatch of 5.5.0; docs/protocol.md#lite-topics.
"""

from __future__ import annotations

from typing import Final

from gantrymq.broker.operations.admission import Target
from gantrymq.broker.operations.message_types import kind_of
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import MessageIllegal
from gantrymq.message import properties, system_topics
from gantrymq.message.lite_topics import check_lite_topic, is_lite_queue, lite_queue
from gantrymq.message.message_types import LITE
from gantrymq.store.message_store import MessageStore

LITE_TOPICS_MAX: Final = 20_000
"""Lite topics of a broker: each has files of its own. Source: MessageStoreConfig.maxLmqConsumeQueueNum."""
LITE_HEADROOM_BYTES: Final = 320
"""Bytes of the properties that the store adds: a name of 127 and one of 64 characters, and a queue offset."""


class LiteSends:
    """Looks where such a message goes."""

    def __init__(self, store: MessageStore, most: int = LITE_TOPICS_MAX) -> None:
        self._store = store
        self._most = most

    def queue_of(self, text: str, topic: str, target: Target) -> str | None:
        """The queue of the lite topic that a message with these properties is for; None: it is for no lite topic.
        Raises Refused."""
        lite_topic = properties.find(text, properties.LITE_TOPIC)
        if lite_topic is None or kind_of(text) != LITE or topic.startswith(system_topics.DEAD_LETTER_PREFIX):
            return None
        if not target.takes_lite:
            raise Refused(
                Refusal.MESSAGE_ILLEGAL,
                f"the topic {topic} has no lite topics; send the message to a topic of type LITE",
            )
        try:
            check_lite_topic(lite_topic)
        except MessageIllegal as error:
            raise Refused(Refusal.LITE_TOPIC_ILLEGAL, str(error)) from error
        queue = lite_queue(topic, lite_topic)
        if queue in self._store.deleting:
            raise Refused(Refusal.BUSY, f"the lite topic {lite_topic} is being deleted; send the message again")
        if self._store.has_queue(queue) or self._count() < self._most:
            return queue
        raise Refused(
            Refusal.LITE_TOPICS_EXCEEDED,
            f"this broker has {self._most} lite topics, and makes no further one; let them expire "
            "(lite.topic.expiration of the topic), or use fewer",
        )

    def _count(self) -> int:
        return sum(is_lite_queue(name) for name in self._store.topics())
