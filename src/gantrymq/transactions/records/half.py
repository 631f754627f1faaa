"""The records of a transaction: half, final, op and parked message. Values only.

| Record | Topic, queue | Body, born data, flag | Properties                              | Names the half by     |
|--------|--------------|-----------------------|-----------------------------------------|-----------------------|
| half   | HALF 0       | the sender's          | the sender's, REAL_TOPIC, REAL_QID      |                       |
| final  | the user's   | the half's            | the half's without REAL_TOPIC, REAL_QID | prepared offset (log) |
| op     | OP 0         | the half's offset     | TAGS=d, WAIT=true, GANTRY_ENDED_BY       | body (half queue)     |
| parked | PARKED 0     | the half's            | the half's, TRANSACTION_CHECK_TIMES     | prepared offset (log) |

Source: TransactionalMessageBridge, EndTransactionProcessor, DefaultTransactionalMessageCheckListener of 5.5.0;
docs/store.md#half-messages, docs/store.md#op-messages, docs/store.md#final-messages, docs/store.md#checks,
docs/store.md#parking-and-resuming.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from gantrymq.errors import CorruptRecord
from gantrymq.message import flags, properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, OP, PARKED
from gantrymq.protocol.stored_message import (
    pack_host,
)
from gantrymq.store.values import NewRecord
from gantrymq.transactions.table.decisions import Cause, Decision

HALF_QUEUE_ID: Final = 0
"""Half, op and parked messages have one queue each. END_TRANSACTION does not carry a queue id."""

OP_TAGS_CODE: Final = ord("d")
OP_PROPERTIES: Final = f"{properties.TAGS}\x01d\x02{properties.WAIT}\x01true\x02"
_REAL_PLACE: Final = frozenset({properties.REAL_TOPIC, properties.REAL_QUEUE_ID})
_CHECK_COUNT: Final = frozenset({properties.CHECK_TIMES})
_COPY_MARKS: Final = _CHECK_COUNT | {properties.PREPARED_QUEUE_OFFSET}


def with_real_place(text: str, real_topic: str, real_queue_id: int, unique_key: str) -> str:
    """The properties of a half: the sender's, which end with a separator, and where the message is for."""
    if not unique_key:
        return f"{text}{_REAL_TOPIC}{real_topic}{_REAL_QUEUE_ID}{real_queue_id}\x02"
    return f"{text}{_TRANSACTION_ID}{unique_key}{_REAL_TOPIC_ITEM}{real_topic}{_REAL_QUEUE_ID}{real_queue_id}\x02"


_TRANSACTION_ID: Final = f"{properties.TRANSACTION_ID}\x01"
_REAL_TOPIC: Final = f"{properties.REAL_TOPIC}\x01"
_REAL_TOPIC_ITEM: Final = f"\x02{_REAL_TOPIC}"
_REAL_QUEUE_ID: Final = f"\x02{properties.REAL_QUEUE_ID}\x01"


def final_record(half: NewRecord, real_topic: str, real_queue_id: int, half_log_offset: int) -> NewRecord:
    """The message consumers get when the half at ``half_log_offset`` is committed."""
    return NewRecord(
        topic=real_topic,
        queue_id=real_queue_id,
        body=half.body,
        properties=final_properties(half.properties),
        flag=half.flag,
        sys_flag=half.sys_flag & ~flags.TRANSACTION_MASK | flags.COMMITTED,
        born_timestamp=half.born_timestamp,
        born_host=half.born_host,
        reconsume_times=half.reconsume_times,
        prepared_transaction_offset=half_log_offset,
        tags_code=half.tags_code,
    )


def final_properties(text: str) -> str:
    """A half's properties without its real place, as 5.5.0 stores them."""
    at = text.rfind(_REAL_TOPIC_ITEM) + 1
    # The halves we wrote end with REAL_TOPIC and REAL_QID; cutting there spares a split of the whole text.
    if at and text.count("\x02", at) == 2 and _REAL_QUEUE_ID in text[at:]:
        return text[:at]
    return properties.without(text, _REAL_PLACE)


def op_record(
    half_queue_offset: int,
    decision: Decision,
    now_ms: int,
    ended_by: bytes,
    cause: int = Cause.PRODUCER,
    note: str = "",
) -> NewRecord:
    """The record that settles one copy of a half.

    One number without a comma: 5.x brokers read it like their own lists (``op_bodies``), and 4.x brokers read nothing
    else. What says
    who ended it and why stands where Apache's brokers do not look: ``ended_by`` (packed address) in the born host,
    ``cause`` in the flag, and ``note``, which operators give, in a property.
    """
    return NewRecord(
        topic=OP,
        queue_id=HALF_QUEUE_ID,
        body=b"%d" % half_queue_offset,
        properties=OP_PROPERTIES + _noted(note) if note else OP_PROPERTIES,
        flag=decision | cause,
        born_timestamp=now_ms,
        born_host=ended_by,
        tags_code=OP_TAGS_CODE,
    )


def _noted(note: str) -> str:
    text = "".join(character for character in note if character.isprintable())[:NOTE_MAX_CHARACTERS]
    return f"{properties.ENDED_BY}\x01{text}\x02"


NOTE_MAX_CHARACTERS: Final = 1_000
"""Of what an operator says; the properties of a record have an end."""


OP_BYTES_MAX: Final = 4_096
"""As Apache's transactionOpMsgMaxSize is by default."""
_OFFSET_BYTES: Final = 16
"""Of a queue offset with 15 digits and its comma."""


def op_bodies(half_queue_offsets: Sequence[int], max_bytes: int = OP_BYTES_MAX) -> list[bytes]:
    """The bodies of the op messages that settle these halves together, each of ``max_bytes`` at most.

    As Apache's 5.x brokers write their own lists, and no longer than those. One alone is written without a comma, which
    4.x brokers can read, too.
    """
    size = max_bytes // _OFFSET_BYTES
    if size < 2 or len(half_queue_offsets) == 1:
        return [b"%d" % offset for offset in half_queue_offsets]
    parts = [half_queue_offsets[at : at + size] for at in range(0, len(half_queue_offsets), size)]
    return [b"%d," * len(some) % tuple(some) for some in parts]


def parse_op(body: bytes) -> list[int]:
    """The half queue offsets an op body names: ``b"3"`` (4.x) or ``b"3,4,5,"`` (5.x); what is no number is skipped."""
    return [int(part) for part in body.split(b",") if part.isdigit()]


def parked_record(half: NewRecord, half_log_offset: int, checks: int) -> NewRecord:
    """The copy of an undecided half message for the operator. It keeps topic and queue, so it can be resumed."""
    return NewRecord(
        topic=PARKED,
        queue_id=HALF_QUEUE_ID,
        body=half.body,
        properties=with_check_times(half.properties, checks),
        flag=half.flag,
        sys_flag=half.sys_flag,
        born_timestamp=half.born_timestamp,
        born_host=half.born_host,
        reconsume_times=half.reconsume_times,
        prepared_transaction_offset=half_log_offset,
        tags_code=half.tags_code,
    )


def resumed_record(parked: StoredMessage) -> NewRecord:
    """A parked message as a half again, with all its checks before it. Raises CorruptRecord when it cannot be one."""
    read_half(structs.replace(parked, topic=HALF))
    text = properties.without(parked.properties_text, _COPY_MARKS)
    return replace(
        new_record_of(parked),
        topic=HALF,
        queue_id=HALF_QUEUE_ID,
        properties=properties.append(text, f"{properties.CHECK_TIMES}\x010\x02"),
        sys_flag=parked.sys_flag & ~flags.TRANSACTION_MASK,
    )


def with_check_times(text: str, checks: int) -> str:
    """A half's properties with the number of checks so far, as a checker sees it."""
    text = properties.without(text, _CHECK_COUNT)
    return properties.append(text, f"{properties.CHECK_TIMES}\x01{checks}\x02")


@dataclass(frozen=True, slots=True)
class HalfFields:
    """The transaction that a stored half message belongs to."""

    group: str
    unique_key: str
    real_topic: str
    real_queue_id: int
    immunity_text: str | None
    check_times: str | None
    """Present on the copies that Apache's brokers put back."""
    prepared_queue_offset: str | None
    sender: str = ""
    """The client id of the sender, when it has decisive checkers and says who it is."""


def read_half(stored: StoredMessage) -> HalfFields:
    """Raises CorruptRecord when the record cannot be a half: it names no group or no real place."""
    decoded = properties.decode(stored.properties_text)
    group = decoded.get(properties.PRODUCER_GROUP, "")
    real_topic = decoded.get(properties.REAL_TOPIC, "")
    real_queue_id = decoded.get(properties.REAL_QUEUE_ID, "")
    if stored.topic != HALF or not group or not real_topic or not real_queue_id.isdecimal():
        raise CorruptRecord(
            stored.log_offset,
            f"no half message: topic {stored.topic!r}, PGROUP {group!r}, REAL_TOPIC {real_topic!r}, "
            f"REAL_QID {real_queue_id!r}",
        )
    return HalfFields(
        group,
        decoded.get(properties.UNIQ_KEY, ""),
        real_topic,
        int(real_queue_id),
        decoded.get(properties.CHECK_IMMUNITY_SECONDS),
        decoded.get(properties.CHECK_TIMES),
        decoded.get(properties.PREPARED_QUEUE_OFFSET),
        decoded.get(properties.SENDING_CLIENT, "") if decoded.get(properties.IMMUNE_WHILE_CONNECTED) == group else "",
    )


def new_record_of(stored: StoredMessage) -> NewRecord:
    """A stored half as the record it was appended from."""
    return NewRecord(
        topic=stored.topic,
        queue_id=stored.queue_id,
        body=stored.body,
        properties=stored.properties_text,
        flag=stored.flag,
        sys_flag=stored.sys_flag,
        born_timestamp=stored.born_timestamp,
        born_host=pack_host(stored.born_host),
        reconsume_times=stored.reconsume_times,
    )
