"""Messages sent again: a copy for everybody who reads the topic, or for one group only.

The copy keeps the id of the message (UNIQ_KEY), so a consumer that notes ids, as the inbox of ``gantrymq.sql`` does,
recognises a message whose effect it already has.
"""

from __future__ import annotations

from typing import Final

from gantrymq.admin.asking import Asking
from gantrymq.errors import ConfigError
from gantrymq.message import properties, system_topics
from gantrymq.message.message import MessageView
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer

GROUP: Final = "gantry-resend"
"""The producer group of copies."""
_STORED: Final = (
    ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)  # fmt: skip


def origin_topic(message: MessageView) -> str:
    """The topic that a message was sent to first: of a retry or a dead letter it is in a property."""
    found = message.properties.get(properties.DEAD_LETTER_ORIGIN_TOPIC) or message.properties.get(
        properties.RETRY_TOPIC
    )
    return found or message.topic


def copy_of(message: MessageView, group: str | None) -> tuple[str, dict[str, str]]:
    """Topic and properties of the copy. ``group``: the only one that shall get it. Raises ConfigError."""
    topic = origin_topic(message)
    if topic in system_topics.NOT_SENDABLE or topic.startswith(system_topics.DEAD_LETTER_PREFIX):
        raise ConfigError(f"the topic of message {message.message_id} is not known; it is in {message.topic}")
    kept = {name: value for name, value in message.properties.items() if name not in properties.OF_ONE_DELIVERY}
    if group is None:
        return topic, kept
    origin = message.properties.get(properties.ORIGIN_MESSAGE_ID) or message.offset_message_id
    return system_topics.retry_topic(group), {
        **kept, properties.RETRY_TOPIC: topic, properties.ORIGIN_MESSAGE_ID: origin,
    }  # fmt: skip


class Resending:
    """Raises RequestRejected, Unreachable or TimedOut; after the last one the copy may be stored."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def resend(self, message: MessageView, group: str | None = None) -> str:
        """Store a copy at the broker that has the message; returns its offset message id."""
        topic, kept = copy_of(message, group)
        header = SendMessage(
            producer_group=GROUP, topic=topic, default_topic=system_topics.AUTO_CREATE, default_topic_queue_nums=1,
            queue_id=message.queue.queue_id if topic == message.topic else 0, sys_flag=0,
            born_timestamp=self._asking.endpoint.clock.wall_ms(), flag=message.flag,
            properties=properties.encode(kept), reconsume_times=0, unit_mode=False, batch=False,
            bname=message.queue.broker_name,
        )  # fmt: skip
        name = message.queue.broker_name
        address = (await self._asking.chosen(name))[name]
        answer = await self._asking.ask(
            address, RequestCode.SEND_MESSAGE_V2, header, message.body, accept=_STORED, timeout_ms=10_000,
            what=f"copy of message {message.message_id}",
        )  # fmt: skip
        return answer.header(SendMessageAnswer).msg_id
