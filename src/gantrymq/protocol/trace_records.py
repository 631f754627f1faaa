"""The records of the message trace: what clients write to the trace topic, field by field.

Clients with the trace switched on send messages to ``RMQ_SYS_TRACE_TOPIC``. The body of each is a row of records, one
for each thing that happened to a message; its KEYS are the ids and the keys of the messages in the records, so that
the index finds them. Source: TraceDataEncoder, TraceContext; docs/protocol.md#message-trace.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gantrymq.runtime.calendar import LAST_MS

FIELD, RECORD = "\x01", "\x02"
NO_KEYS: Final = "null"
"""Java's client writes this for no keys where they would be the last field, because its reader loses an empty one."""
CONSUMED, FAILED = 0, 4
"""How consuming ended (ConsumeReturnType)."""


class TraceKind(enum.StrEnum):
    """What a record tells of (TraceType)."""

    PUB = "Pub"
    SUB_BEFORE = "SubBefore"
    SUB_AFTER = "SubAfter"
    END_TRANSACTION = "EndTransaction"
    RECALL = "Recall"


class TracedMessage(enum.IntEnum):
    """Kinds of messages by their numbers (MessageType)."""

    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3
    ORDERED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord:
    """One record. A field that its kind does not have keeps its default."""

    kind: TraceKind
    message_id: str
    time_ms: int = 0
    """The client's time: when the send or the call of the listener began, or when the rest happened. 0: not told."""
    region: str = ""
    group: str = ""
    """The group of the client, with its namespace."""
    topic: str = ""
    tags: str = ""
    keys: str = ""
    """The KEYS of the message, as one text."""
    broker: str = ""
    """The address of the broker that has the message."""
    size: int = 0
    """Bytes of the body."""
    cost_ms: int = 0
    """How long it took: for the listener, its time divided by the messages of the call."""
    message_kind: TracedMessage = TracedMessage.NORMAL
    offset_message_id: str = ""
    good: bool = True
    """It was stored, or consumed."""
    request_id: str = ""
    """The call of a listener, in the records of its beginning and its end."""
    deliveries_before: int = 0
    context_code: int = CONSUMED
    transaction_id: str = ""
    state: str = ""
    """The decision, by the name of Java's LocalTransactionState."""
    from_check: bool = False
    """The decision answered a check-back."""


LAYOUTS: Final[Mapping[TraceKind, tuple[str, ...]]] = MappingProxyType(
    {
        TraceKind.PUB: (
            "time_ms", "region", "group", "topic", "message_id", "tags", "keys", "broker", "size", "cost_ms",
            "message_kind", "offset_message_id", "good",
        ),
        TraceKind.SUB_BEFORE: (
            "time_ms", "region", "group", "request_id", "message_id", "deliveries_before", "keys",
        ),
        TraceKind.SUB_AFTER: (
            "request_id", "message_id", "cost_ms", "good", "keys", "context_code", "time_ms", "group",
        ),
        TraceKind.END_TRANSACTION: (
            "time_ms", "region", "group", "topic", "message_id", "tags", "keys", "broker", "message_kind",
            "transaction_id", "state", "from_check",
        ),
        TraceKind.RECALL: ("time_ms", "region", "group", "topic", "message_id", "good"),
    }
)  # fmt: skip
"""The fields behind the kind, in order."""
_KEYS_LAST: Final = (TraceKind.SUB_BEFORE, TraceKind.SUB_AFTER)
_NEEDED: Final[Mapping[TraceKind, int]] = MappingProxyType({TraceKind.PUB: 12, TraceKind.SUB_AFTER: 6})
"""Fields that clients always wrote. Before 4.3 a Pub had no offset message id; with the access channel CLOUD, Java's
clients leave out the last two fields of SubAfter."""


def _in_calendars(time_ms: int) -> int:
    if not 0 <= time_ms <= LAST_MS:
        raise ValueError(f"{time_ms} is no time")
    return time_ms


_READ: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "time_ms": lambda text: _in_calendars(int(text)),
        **dict.fromkeys(("size", "cost_ms", "deliveries_before", "context_code"), int),
        **dict.fromkeys(("good", "from_check"), lambda text: text == "true"),
        "message_kind": lambda text: TracedMessage(int(text)),
        "keys": lambda text: "" if text == NO_KEYS else text,
    }
)


def encode(record: TraceRecord) -> str:
    """The record as text."""
    return FIELD.join((record.kind.value, *(_word(record, name) for name in LAYOUTS[record.kind]))) + RECORD


def _word(record: TraceRecord, name: str) -> str:
    value = getattr(record, name)
    if name == "keys" and not value and record.kind in _KEYS_LAST:
        return NO_KEYS
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, int) else str(value)


def decode(body: bytes) -> tuple[list[TraceRecord], int]:
    """The records of a trace message, and the number of those that cannot be read: they are left out."""
    texts = [text for text in body.decode("utf-8", "replace").split(RECORD) if text]
    found = [record for text in texts if (record := _decoded(text)) is not None]
    return found, len(texts) - len(found)


def _decoded(text: str) -> TraceRecord | None:
    word, *fields = text.split(FIELD)
    try:
        kind = TraceKind(word)
        names = LAYOUTS[kind]
        if len(fields) < _NEEDED.get(kind, len(names)):
            return None
        if kind is TraceKind.PUB and len(fields) == _NEEDED[kind]:
            fields = [*fields[:-1], "", fields[-1]]
        values = {name: _READ.get(name, str)(field) for name, field in zip(names, fields, strict=False)}
        return TraceRecord(kind=kind, **values)
    except ValueError:
        return None
