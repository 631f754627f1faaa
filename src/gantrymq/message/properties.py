"""The names of the properties that RocketMQ gives messages, and the text form of properties.

Text form: ``name 0x01 value 0x02 name 0x01 value 0x02 ...``; the last 0x02 may be missing (clients 4.9.1 to 5.1).
Source: MessageConst, MessageDecoder; docs/protocol.md#properties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gantrymq.errors import MessageIllegal

NAME_SEPARATOR: Final = "\x01"
ITEM_SEPARATOR: Final = "\x02"

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
UNIQ_KEY: Final = "UNIQ_KEY"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
CHECK_IMMUNITY_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
IMMUNE_WHILE_CONNECTED: Final = "GANTRY_CHECK_IMMUNITY_WHILE_CONNECTED"
"""Set on a half message whose group has decisive checkers; the value is the producer group. If the sender's connection
is lost, such a half message may be checked before its immunity ends. Apache's brokers ignore it. Consumers see it, as
they see TRAN_MSG and PGROUP. When another group sends a message with a copy of all properties, the group in the value
shows that the property does not apply there."""
SENDING_CLIENT: Final = "GANTRY_SENDING_CLIENT"
"""Beside IMMUNE_WHILE_CONNECTED: the client id of the sender, as its heartbeats say it. With it, a broker that was
restarted knows which senders have come back. Consumers see it."""
EARLY_CHECK: Final = "GANTRY_EARLY_CHECK"
"""``true`` on the message in a check that is sent before the end of the immunity."""
LOCAL_TRANSACTION: Final = "GANTRY_LOCAL_TRANSACTION"
"""Of a half message sent by ``gantrymq.sql``: the id of its local transaction, which may have several half messages,
and after a blank the identity of the database that knows the outcome. Consumers see it."""
PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_ID: Final = "__transactionId__"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CLUSTER: Final = "CLUSTER"
ENDED_BY: Final = "GANTRY_ENDED_BY"
"""On op messages of a GantryMQ broker: the person who decided the transaction, and why. RocketMQ does not know it."""
INSTANCE_ID: Final = "INSTANCE_ID"
SHARDING_KEY: Final = "__SHARDINGKEY"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
"""Of a message of type PRIORITY: a number from 0 on, which chooses its queue (5.4)."""
LITE_TOPIC: Final = "__LITE_TOPIC"
"""Of a message of type LITE: its lite topic, below the topic that it is sent to (5.5)."""
MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
"""Further queues in which a stored message has a place, and the places: see ``store.queues.multi_dispatch``."""
TIMER_DELAY_SECONDS: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DELETE_KEY: Final = "TIMER_DEL_UNIQKEY"
POP_CHECK_POINT: Final = "POP_CK"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
MESSAGE_TYPE: Final = "MSG_TYPE"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
DEAD_LETTER_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DEAD_LETTER_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
"""What a client of gRPC says of the trace that a message belongs to: a ``traceparent``, if it is one of W3C."""
TRACE_PARENT: Final = "traceparent"
"""The same as OpenTelemetry has it in clients of remoting."""

DELAYS: Final = frozenset({DELAY, TIMER_DELAY_SECONDS, TIMER_DELAY_MS, TIMER_DELIVER_MS})
"""A message with any of these is delayed."""

BROKER_ONLY: Final = frozenset(
    {
        REAL_TOPIC, REAL_QUEUE_ID, CHECK_TIMES, PREPARED_QUEUE_OFFSET, TRANSACTION_ID, POP_CHECK_POINT, TIMER_OUT_MS,
        MULTI_DISPATCH, MULTI_QUEUE_OFFSET,
    }
)  # fmt: skip
"""Properties that only a broker may set. A broker removes them from the messages it receives, because with them a
sender could change what the broker does (X1)."""

OF_ONE_DELIVERY: Final = BROKER_ONLY | DELAYS | {
    TRANSACTION_PREPARED, PRODUCER_GROUP, MIN_OFFSET, MAX_OFFSET, REGION, TRACE_ON, CLUSTER, WAIT, RECONSUME_TIME,
    MAX_RECONSUME_TIMES, CONSUME_START_TIME, CHECK_IMMUNITY_SECONDS, IMMUNE_WHILE_CONNECTED, SENDING_CLIENT,
    LOCAL_TRANSACTION, FIRST_POP_TIME, TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS, TIMER_ROLL_TIMES,
    DEAD_LETTER_ORIGIN_TOPIC, DEAD_LETTER_ORIGIN_MESSAGE_ID, RETRY_TOPIC, ORIGIN_MESSAGE_ID,
}  # fmt: skip
"""What belongs to one delivery of a message: a copy that is sent again does not have it."""

RESERVED: Final = frozenset(
    {
        KEYS, TAGS, WAIT, DELAY, RETRY_TOPIC, REAL_TOPIC, REAL_QUEUE_ID, TRANSACTION_PREPARED, PRODUCER_GROUP,
        MIN_OFFSET, MAX_OFFSET, ORIGIN_MESSAGE_ID, RECONSUME_TIME, MAX_RECONSUME_TIMES, REGION, TRACE_ON, UNIQ_KEY,
        CONSUME_START_TIME, PREPARED_QUEUE_OFFSET, TRANSACTION_ID, CHECK_TIMES, CLUSTER, INSTANCE_ID, SHARDING_KEY,
        PRIORITY, LITE_TOPIC, MULTI_DISPATCH, MULTI_QUEUE_OFFSET, TIMER_DELAY_SECONDS, TIMER_DELAY_MS, TIMER_DELIVER_MS,
        TIMER_OUT_MS, POP_CHECK_POINT,
        IMMUNE_WHILE_CONNECTED, SENDING_CLIENT, EARLY_CHECK, LOCAL_TRANSACTION,
        "BUYER_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "EXTEND_UNIQ_INFO", "CORRELATION_ID",
        "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME", "MSG_TYPE",
    }
)  # fmt: skip
"""Names that a user property may not have. CHECK_IMMUNITY_TIME_IN_SECONDS is not among them: it is meant for users."""


def encode(properties: Mapping[str, str]) -> str:
    """Properties to text. Items with an empty name or value are left out, because every RocketMQ reader drops them.

    Raises MessageIllegal when a name or value contains 0x01 or 0x02, which the format cannot express.
    """
    parts: list[str] = []
    for name, value in properties.items():
        if not name or not value:
            continue
        if "\x01" in value or "\x02" in value or "\x01" in name or "\x02" in name:
            raise MessageIllegal(f"property {name!r} contains the separator character 0x01 or 0x02; remove it")
        parts.append(f"{name}\x01{value}\x02")
    return "".join(parts)


def decode(text: str) -> dict[str, str]:
    """Text to properties. Items without a separator, name or value are dropped, like Java does."""
    properties: dict[str, str] = {}
    for item in text.split("\x02"):
        name, separator, value = item.partition("\x01")
        if separator and name and value:
            properties[name] = value
    return properties


def find(text: str, name: str) -> str | None:
    """One property of the text without decoding the others; None when absent. Like ``decode``, the last one counts."""
    mark = name + "\x01"
    if mark not in text:
        return None
    end = len(text)
    while name:
        before = text.rfind("\x02" + mark, 0, end)
        if before < 0 and not text.startswith(mark):
            break
        start = before + 1 + len(mark)
        stop = text.find("\x02", start)
        value = text[start:] if stop < 0 else text[start:stop]
        if value or before < 0:
            return value or None
        end = before + 1
    return None


def finder(name: str) -> Callable[[str], str | None]:
    """``find`` for one name and many texts."""
    mark = f"{name}\x01"
    behind = "\x02" + mark

    def lookup(text: str) -> str | None:
        before = text.rfind(behind)
        if before >= 0:
            start = before + len(behind)
        elif text.startswith(mark):
            start = len(mark)
        else:
            return None
        end = text.find("\x02", start)
        return (text[start:] if end < 0 else text[start:end]) or find(text, name)  # an empty item does not count

    return lookup


def append(text: str, addition: str) -> str:
    """``text`` followed by items that are already encoded. Adds the last separator of ``text`` if it is missing."""
    if text and not text.endswith("\x02"):
        return f"{text}\x02{addition}"
    return text + addition


def without(text: str, names: frozenset[str]) -> str:
    """``text`` without the named items; the same object when none of them is present."""
    for name in names:
        if name in text:
            break
    else:
        return text
    kept = [item for item in text.split("\x02") if item and item.partition("\x01")[0] not in names]
    return "".join(f"{item}\x02" for item in kept)
