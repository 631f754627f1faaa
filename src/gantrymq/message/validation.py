"""The rules that a message must follow to be sent. Source: Validators.checkMessage; docs/protocol.md#names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gantrymq.errors import MessageIllegal
from gantrymq.message import properties, system_topics
from gantrymq.message.arguments import shown
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.message.sizes import MAX_BODY_BYTES


def check_message(message: object, max_body_bytes: int = MAX_BODY_BYTES) -> None:
    """Raise MessageIllegal, which says what to change, unless the message may be sent.

    ``object``, here and below: compiled code would refuse what a user passes with a TypeError of its own.
    """
    if not isinstance(message, Message):
        raise MessageIllegal(f"what is sent must be a Message(topic, body), not {shown(message)}")
    system_topics.check_topic(message.topic)
    if message.topic in system_topics.NOT_SENDABLE:
        raise MessageIllegal(f"the topic {message.topic!r} belongs to the system; send to a topic of your own")
    if not message.body:
        raise MessageIllegal("the body is empty; RocketMQ needs at least one byte")
    if len(message.body) > max_body_bytes:
        raise MessageIllegal(
            f"the body has {len(message.body)} bytes; the limit is {max_body_bytes}. "
            "Send a reference to the data, or raise maxMessageSize on clients and brokers"
        )
    if not -(2**31) <= message.flag < 2**31:
        raise MessageIllegal(f"the flag {message.flag} does not fit into 32 bits")


def check_in_transaction(message: object, max_body_bytes: int = MAX_BODY_BYTES) -> None:
    """Raise MessageIllegal for a message that cannot be sent in a transaction."""
    check_message(message, max_body_bytes)
    if isinstance(message, Message) and properties.PRIORITY in message.properties:
        raise MessageIllegal("a message in a transaction cannot have a priority: brokers drop it. Remove the priority")
    if isinstance(message, Message) and properties.LITE_TOPIC in message.properties:
        raise MessageIllegal("a message in a transaction cannot be for a lite topic; send it to a topic")
    if isinstance(message, Message) and is_delayed(message.properties):
        raise MessageIllegal(
            "a message in a transaction cannot be delayed: brokers lose it, or its delay. Remove the delay, or let a "
            "consumer of the message send the delayed one (docs/sql.md, Limits)"
        )


def check_batch(messages: Sequence[Message], max_body_bytes: int) -> None:
    """Raise MessageIllegal, which says why, unless ``messages`` can be sent as one batch. Source: MessageBatch."""
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise MessageIllegal(f"a batch must be a list of messages, not {shown(messages)}")
    if not messages:
        raise MessageIllegal("the batch is empty; give it at least one message")
    total = 0
    for message in messages:
        check_message(message, max_body_bytes)
        topic = messages[0].topic
        if message.topic != topic:
            raise MessageIllegal(f"a batch holds messages of one topic, not of {topic!r} and {message.topic!r}")
        if topic.startswith(system_topics.RETRY_PREFIX):
            raise MessageIllegal("a batch cannot be sent to a retry topic")
        if is_delayed(message.properties):
            raise MessageIllegal("a batch cannot hold delayed messages; send them one by one")
        if properties.LITE_TOPIC in message.properties:
            raise MessageIllegal("a batch cannot hold messages to lite topics; send them one by one")
        if properties.PRIORITY in message.properties:
            raise MessageIllegal("a batch has one queue, and cannot hold priorities; send the messages one by one")
        total += len(message.body)
    if total > max_body_bytes:
        raise MessageIllegal(f"the batch has {total} bytes of bodies; the limit is {max_body_bytes}. Split it")


def check_ordered(message: Message) -> None:
    """Raise MessageIllegal for a message whose queue its ordering key cannot choose."""
    if properties.LITE_TOPIC in message.properties:
        raise MessageIllegal("a message to a lite topic is in order already; send it without a key")
    if properties.PRIORITY in message.properties:
        raise MessageIllegal("an ordered message cannot have a priority: each of both would choose its queue")


def check_queue(queue: object, topic: str) -> MessageQueue:
    """``queue``; raises MessageIllegal unless a message to ``topic``, as brokers name it, can be sent to it."""
    if not isinstance(queue, MessageQueue):
        raise MessageIllegal(f"queue must be a MessageQueue, as queues(topic) lists them, not {shown(queue)}")
    if queue.topic != topic:
        raise MessageIllegal(f"the message is for topic {topic!r}, and {queue} is a queue of another one")
    return queue


def check_text(what: str, value: object) -> None:
    """Raise MessageIllegal unless ``value`` is a text."""
    if not isinstance(value, str):
        raise MessageIllegal(f"the {what} must be a text, not {shown(value)}")


def is_delayed(values: Mapping[str, str]) -> bool:
    if properties.DELAYS.isdisjoint(values):
        return False
    return any(name in values and values[name] not in ("", "0") for name in properties.DELAYS)
