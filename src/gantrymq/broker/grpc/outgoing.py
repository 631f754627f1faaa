"""Stored messages as clients get them. Pure. Source: GrpcConverter.buildMessage; docs/grpc.md#receiving."""

from __future__ import annotations

import hashlib
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from gantrymq.grpc.definition_pb2 import (
    DeadLetterQueue,
    Digest,
    DigestType,
    Encoding,
    Message,
    MessageType,
    Resource,
    SystemProperties,
)
from gantrymq.message import flags, properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.parts import MAX_PRIORITY, priority_in
from gantrymq.protocol.compression import decompress
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id

# Looking up a member of an enum of protobuf costs a microsecond: once, and not with each message.
_MD5: Final = DigestType.MD5
_IDENTITY: Final = Encoding.IDENTITY
_NORMAL: Final = MessageType.NORMAL
_OF_THE_BROKER: Final = properties.RESERVED | properties.OF_ONE_DELIVERY | {properties.TRACE_CONTEXT}


def message_of(stored: StoredMessage, topic: str) -> Message:
    """The message with what its sender gave it. ``topic``: the one it was sent to, for a retry or a half message.

    The body is sent decompressed: not every client reads each kind of compression.
    """
    values = properties.decode(stored.properties_text)
    body = stored.body
    if stored.sys_flag & flags.COMPRESSED:
        body = decompress(body, stored.sys_flag)
    system = SystemProperties(
        message_id=values.get(properties.UNIQ_KEY)
        or offset_message_id(pack_host(stored.store_host), stored.log_offset),
        keys=values.get(properties.KEYS, "").split(),
        body_digest=Digest(
            type=_MD5, checksum=hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
        ),
        body_encoding=_IDENTITY,
        message_type=type_of(values),
        born_host=stored.born_host,
        store_host=stored.store_host,
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        delivery_attempt=stored.reconsume_times + 1,
    )  # fmt: skip
    set_ms(system.born_timestamp, stored.born_timestamp)
    set_ms(system.store_timestamp, stored.store_timestamp)
    if tag := values.get(properties.TAGS):
        system.tag = tag
    if group := values.get(properties.SHARDING_KEY):
        system.message_group = group
    if lite_topic := values.get(properties.LITE_TOPIC):
        system.lite_topic = lite_topic
    priority = priority_in(values.get(properties.PRIORITY))
    if priority is not None and priority <= MAX_PRIORITY:
        system.priority = priority
    if trace := values.get(properties.TRACE_CONTEXT) or values.get(properties.TRACE_PARENT):
        system.trace_context = trace
    if (at := values.get(properties.TIMER_DELIVER_MS) or values.get(properties.TIMER_OUT_MS)) and at.isdigit():
        set_ms(system.delivery_timestamp, int(at))
    if origin := values.get(properties.DEAD_LETTER_ORIGIN_TOPIC):
        system.dead_letter_queue.CopyFrom(
            DeadLetterQueue(topic=origin, message_id=values.get(properties.DEAD_LETTER_ORIGIN_MESSAGE_ID, ""))
        )
    own = {name: value for name, value in values.items() if name not in _OF_THE_BROKER}
    return Message(topic=Resource(name=topic), user_properties=own, system_properties=system, body=body)


def type_of(values: dict[str, str]) -> MessageType:
    """The type of a stored message, from its properties."""
    if values.get(properties.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if not properties.DELAYS.isdisjoint(values) or properties.TIMER_OUT_MS in values:
        return MessageType.DELAY
    if properties.SHARDING_KEY in values:
        return MessageType.FIFO
    if properties.PRIORITY in values:
        return MessageType.PRIORITY
    return MessageType.LITE if properties.LITE_TOPIC in values else _NORMAL


def set_ms(timestamp: Timestamp | Duration, ms: int) -> None:
    timestamp.seconds, rest = divmod(ms, 1000)
    timestamp.nanos = rest * 1_000_000
