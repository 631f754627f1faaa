"""The rules a message must keep before it may be sent. Source: Validators.checkMessage; wire-protocol.md 4.10."""

from __future__ import annotations

from gantrymq.errors import MessageIllegal
from gantrymq.message import system_topics
from gantrymq.message.message import Message

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Default of ``maxMessageSize`` on brokers and clients, in bytes."""


def check_message(message: Message, max_body_bytes: int = MAX_BODY_BYTES) -> None:
    """Raise MessageIllegal saying what to change; return when the message may be sent."""
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
