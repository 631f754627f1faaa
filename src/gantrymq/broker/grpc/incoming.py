"""Messages as clients send them: checked, and made into what the broker stores. Pure.

Source: SendMessageActivity, GrpcValidator; docs/grpc.md#sending.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gantrymq.broker.grpc.statuses import Rejected
from gantrymq.broker.submission import Submission
from gantrymq.errors import MessageIllegal
from gantrymq.grpc.definition_pb2 import Code, Encoding, Message, MessageType, SystemProperties
from gantrymq.message import flags, properties, system_topics
from gantrymq.message.lite_topics import check_lite_topic
from gantrymq.message.tags import java_hash

MAX_PROPERTIES: Final = 128
MAX_PROPERTIES_BYTES: Final = 16 * 1024
GROUP_MAX_BYTES: Final = 63
RECOVERY_MAX_SECONDS: Final = 3600
_CONTROL: Final = frozenset(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))
_TYPES: Final = frozenset(
    {
        MessageType.NORMAL,
        MessageType.FIFO,
        MessageType.DELAY,
        MessageType.TRANSACTION,
        MessageType.PRIORITY,
        MessageType.LITE,
        MessageType.MESSAGE_TYPE_UNSPECIFIED,
    }
)
"""What the broker takes."""

# Looking up a member of an enum of protobuf costs a microsecond: once, and not with each message.
_TRANSACTION: Final = MessageType.TRANSACTION
_PRIORITY: Final = MessageType.PRIORITY
_LITE: Final = MessageType.LITE
_GZIP: Final = Encoding.GZIP


def check_topic(name: str) -> str:
    """A topic that clients may name. Raises Rejected."""
    try:
        system_topics.check_topic(name)
    except MessageIllegal as error:
        raise Rejected(Code.ILLEGAL_TOPIC, str(error)) from error
    if name in system_topics.SYSTEM_TOPICS:
        raise Rejected(Code.ILLEGAL_TOPIC, f"the topic {name} belongs to the system; use a topic of your own")
    return name


def check_group(name: str) -> str:
    """A consumer group that clients may name. Raises Rejected."""
    try:
        system_topics.check_group(name)
    except MessageIllegal as error:
        raise Rejected(Code.ILLEGAL_CONSUMER_GROUP, str(error)) from error
    if name.startswith("CID_RMQ_SYS_"):
        raise Rejected(Code.ILLEGAL_CONSUMER_GROUP, f"the group {name} belongs to the system; use a group of your own")
    return name


def check_lite(name: str) -> str:
    """A lite topic that clients may name. Raises Rejected."""
    try:
        check_lite_topic(name)
    except MessageIllegal as error:
        raise Rejected(Code.ILLEGAL_LITE_TOPIC, str(error)) from error
    return name


def submission_of(message: Message, body_max: int) -> Submission:
    """What the broker is given beside the body. Raises Rejected, which names what is wrong and its code."""
    system, topic = message.system_properties, check_topic(message.topic.name)
    message_type = system.message_type
    _check_body(message.body, body_max)
    _check_properties(message.user_properties, system)
    _check_names(system)
    if message_type not in _TYPES:
        raise Rejected(Code.BAD_REQUEST, f"messages of type {name_of_type(message_type)} are not available here")
    _check_of_type(system, message_type, "priority", _PRIORITY)
    _check_of_type(system, message_type, "lite_topic", _LITE)
    if system.HasField("priority") and system.priority < 0:
        raise Rejected(Code.BAD_REQUEST, f"the priority is {system.priority}; use a number from 0 on")
    if system.HasField("lite_topic"):
        check_lite(system.lite_topic)
    half = message_type == _TRANSACTION
    sys_flag = flags.PREPARED if half else 0
    if system.body_encoding == _GZIP:
        sys_flag |= flags.COMPRESSED
    try:
        text = properties.encode(_stored_properties(message, topic, half=half))
    except MessageIllegal as error:
        raise Rejected(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, str(error)) from error
    born = system.born_timestamp
    return Submission(
        producer_group=topic, topic=topic, sys_flag=sys_flag, properties=text,
        born_timestamp=born.seconds * 1000 + born.nanos // 1_000_000,
    )  # fmt: skip


def name_of_type(message_type: int) -> str:
    """For people; a client may send a number that has no name."""
    return str(MessageType.Name(message_type)) if message_type in MessageType.values() else str(message_type)


def queue_of(group: str, queues: int) -> int:
    """The queue of all messages of a message group: the same for clients in each language. Source: Guava's
    ``Hashing.consistentHash`` over the ``hashCode`` of the group, as Apache's proxy has it."""
    state = java_hash(group) & _LONG
    candidate = 0
    while True:
        state = (2862933555777941757 * state + 1) & _LONG
        following = int((candidate + 1) / (((state >> 33) + 1) / 2**31))
        if not 0 <= following < queues:
            return candidate
        candidate = following


_LONG: Final = (1 << 64) - 1


def _stored_properties(message: Message, topic: str, *, half: bool) -> Mapping[str, str]:
    system = message.system_properties
    values = dict(message.user_properties)
    values[properties.UNIQ_KEY] = system.message_id
    if system.HasField("tag"):
        values[properties.TAGS] = system.tag
    if system.keys:
        values[properties.KEYS] = " ".join(system.keys)
    if system.HasField("message_group"):
        values[properties.SHARDING_KEY] = system.message_group
    if system.HasField("priority"):
        values[properties.PRIORITY] = str(system.priority)
    if system.HasField("lite_topic"):
        values[properties.LITE_TOPIC] = system.lite_topic
    if system.HasField("trace_context"):
        values[properties.TRACE_CONTEXT] = system.trace_context
    if system.HasField("delivery_timestamp"):
        at = system.delivery_timestamp
        values[properties.TIMER_DELIVER_MS] = str(at.seconds * 1000 + at.nanos // 1_000_000)
    if half:
        if properties.TIMER_DELIVER_MS in values:
            raise Rejected(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "a message of a transaction cannot be delayed")
        values[properties.TRANSACTION_PREPARED] = "true"
        values[properties.PRODUCER_GROUP] = topic
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = system.orphaned_transaction_recovery_duration.seconds
            if not 0 <= seconds <= RECOVERY_MAX_SECONDS:
                raise Rejected(
                    Code.BAD_REQUEST,
                    f"orphaned_transaction_recovery_duration is {seconds} s; use 0 to {RECOVERY_MAX_SECONDS} s",
                )
            values[properties.CHECK_IMMUNITY_SECONDS] = str(seconds)
    return values


def _check_body(body: bytes, most: int) -> None:
    if not body:
        raise Rejected(Code.MESSAGE_BODY_EMPTY, "the body is empty; a message needs at least one byte")
    if len(body) > most:
        raise Rejected(Code.MESSAGE_BODY_TOO_LARGE, f"the body has {len(body)} bytes; the limit is {most}")


def _check_properties(user: Mapping[str, str], system: SystemProperties) -> None:
    if len(user) > MAX_PROPERTIES:
        raise Rejected(
            Code.MESSAGE_PROPERTIES_TOO_LARGE, f"{len(user)} properties are too many; the limit is {MAX_PROPERTIES}"
        )
    size = len(system.tag.encode()) + sum(len(key.encode()) for key in system.keys)
    for name, value in user.items():
        size += len(name.encode()) + len(value.encode())
        if name in properties.RESERVED:
            raise Rejected(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property name {name!r} is reserved by RocketMQ")
        if not name.strip() or _has_control(name) or _has_control(value):
            raise Rejected(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name!r} is empty or has a control character"
            )
    if size > MAX_PROPERTIES_BYTES:
        raise Rejected(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys have {size} bytes together; the limit is {MAX_PROPERTIES_BYTES}",
        )


def _check_names(system: SystemProperties) -> None:
    if not system.message_id.strip() or _has_control(system.message_id):
        raise Rejected(Code.ILLEGAL_MESSAGE_ID, "the message has no usable message_id")
    if system.HasField("tag") and (not system.tag.strip() or "|" in system.tag or _has_control(system.tag)):
        raise Rejected(Code.ILLEGAL_MESSAGE_TAG, f"the tag {system.tag!r} is blank, or has '|' or a control character")
    for key in system.keys:
        if not key.strip() or _has_control(key):
            raise Rejected(Code.ILLEGAL_MESSAGE_KEY, f"the key {key!r} is blank or has a control character")
    if system.HasField("message_group"):
        group = system.message_group
        if not group.strip() or len(group.encode()) > GROUP_MAX_BYTES or _has_control(group):
            raise Rejected(
                Code.ILLEGAL_MESSAGE_GROUP,
                f"the message group {group[:80]!r} is blank, longer than {GROUP_MAX_BYTES} bytes, or has a control "
                "character",
            )


def _check_of_type(system: SystemProperties, message_type: int, field: str, of_type: int) -> None:
    """Messages of a type, and no others, have a field."""
    has = system.HasField(field)
    if has != (message_type == of_type):
        raise Rejected(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"a message of type {name_of_type(message_type)} has {'a' if has else 'no'} {field}; those of type "
            f"{name_of_type(of_type)}, and no others, have one",
        )


def _has_control(text: str) -> bool:
    return not text.isprintable() and any(character in _CONTROL for character in text)
