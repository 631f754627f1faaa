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

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from zlib import crc32

from msgspec import structs

from gantrymq.errors import CorruptRecord, MessageIllegal
from gantrymq.message import flags, properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, OP, PARKED
from gantrymq.protocol.stored_message import (
    AT_BODY,
    AT_MAGIC,
    CRC_MASK,
    HEAD,
    HOSTS_V6,
    MAGIC_V1,
    MOVED,
    TOPIC_V1_MAX_BYTES,
    pack_host,
    tail_of,
)
from gantrymq.store.dispatch import tags_code_of
from gantrymq.store.values import EncodePair, Known, NewRecord, Prepared
from gantrymq.transactions.table.decisions import Cause, Decision

HALF_QUEUE_ID: Final = 0
"""Half, op and parked messages have one queue each. END_TRANSACTION does not carry a queue id."""

PROPERTIES_RESERVE_BYTES: Final = 160
"""Free bytes a half keeps in its properties for what parking it, or putting it back on an Apache broker, adds
(TRANSACTION_CHECK_TIMES, TRAN_PREPARED_QUEUE_OFFSET, WAIT). Without them such a half could never be parked (X2)."""

OP_TAGS_CODE: Final = ord("d")
_OP_PROPERTIES: Final = f"{properties.TAGS}\x01d\x02{properties.WAIT}\x01true\x02"
_REAL_PLACE: Final = frozenset({properties.REAL_TOPIC, properties.REAL_QUEUE_ID})
_CHECK_COUNT: Final = frozenset({properties.CHECK_TIMES})
_COPY_MARKS: Final = _CHECK_COUNT | {properties.PREPARED_QUEUE_OFFSET}


def half_record(sent: NewRecord, real_topic: str, real_queue_id: int, unique_key: str) -> NewRecord:
    """The half that keeps ``sent`` until the transaction ends.

    Raises MessageIllegal for a delayed message (it would be lost, hole 19) and for properties that leave no room for
    parking it later (X2).
    """
    text = properties.without(sent.properties, properties.BROKER_ONLY)
    _refuse_delay(text)
    text = with_real_place(properties.append(text, ""), real_topic, real_queue_id, unique_key)
    if len(text) * _UTF8_MAX > _PROPERTIES_LIMIT and len(text.encode()) > _PROPERTIES_LIMIT:
        raise MessageIllegal(
            f"the properties of a transactional message may have {_PROPERTIES_LIMIT} bytes with what the broker adds, "
            f"these have {len(text.encode())}; shorten them"
        )
    return NewRecord(
        topic=HALF,
        queue_id=HALF_QUEUE_ID,
        body=sent.body,
        properties=text,
        flag=sent.flag,
        sys_flag=sent.sys_flag & ~flags.TRANSACTION_MASK,
        born_timestamp=sent.born_timestamp,
        born_host=sent.born_host,
        reconsume_times=sent.reconsume_times,
        tags_code=sent.tags_code,
    )


def with_real_place(text: str, real_topic: str, real_queue_id: int, unique_key: str) -> str:
    """The properties of a half: the sender's, which end with a separator, and where the message is for."""
    if not unique_key:
        return f"{text}{_REAL_TOPIC}{real_topic}{_REAL_QUEUE_ID}{real_queue_id}\x02"
    return f"{text}{_TRANSACTION_ID}{unique_key}{_REAL_TOPIC_ITEM}{real_topic}{_REAL_QUEUE_ID}{real_queue_id}\x02"


_TRANSACTION_ID: Final = f"{properties.TRANSACTION_ID}\x01"
_REAL_TOPIC: Final = f"{properties.REAL_TOPIC}\x01"
_REAL_TOPIC_ITEM: Final = f"\x02{_REAL_TOPIC}"
_REAL_QUEUE_ID: Final = f"\x02{properties.REAL_QUEUE_ID}\x01"

_UTF8_MAX: Final = 4
_PROPERTIES_LIMIT: Final = properties.MAX_BYTES - PROPERTIES_RESERVE_BYTES


def _refuse_delay(text: str) -> None:
    if "DELAY" not in text and "TIMER_" not in text:
        return  # no name of one can be in it
    for name in properties.DELAYS:
        if name in text and (properties.find(text, name) or "0") != "0":
            raise MessageIllegal(
                f"a transactional message cannot be delayed as well; remove the property {name} (or send it delayed "
                "from a consumer of the committed message)"
            )


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


def prepared_commit(
    half: bytes, real_topic: str, real_queue_id: int, log_offset: int, queue_offset: int, unique_key: str,
    tags_code: int | None, ended_by: bytes, cause: int,
) -> tuple[Prepared, Prepared, EncodePair, Known] | None:  # fmt: skip
    """``final_record`` of a half given as it is stored, and its ``op_record``, ready to append; None unless
    the half has IPv4 hosts, a topic of at most 127 bytes, and nothing behind the real place in its properties.

    A quarter of the time it takes by way of values, as most of the half stays as it is. ``log_offset`` and
    ``queue_offset``: where the half lies. The op is born when it is stored.
    """
    topic, place = _place_bytes(real_topic, real_queue_id)
    magic, crc, flag, sys_flag, born_timestamp, born_host, times, body_size = MOVED.unpack_from(half, AT_MAGIC)
    fits = magic == MAGIC_V1 and not sys_flag & HOSTS_V6 and topic and len(ended_by) == 8 and half.endswith(place)
    if not fits:
        return None
    body_end = AT_BODY + body_size
    packed = half[body_end + 3 + half[body_end] : 1 - len(place)]
    text = packed.decode()
    size = body_end + len(topic) + 2 + len(packed)
    number = b"%d" % queue_offset
    op = _OPS[len(number)]
    known = (
        half, body_end, topic, packed, size, crc, real_queue_id, flag, sys_flag, born_timestamp, born_host, times,
        log_offset, body_size, op[2], number, _COMMITTED | cause, ended_by,
    )  # fmt: skip
    tags = tags_code_of(text) if tags_code is None else tags_code
    return (real_topic, real_queue_id, size, tags, text, unique_key), op, _encode_commit, known


def _encode_commit(
    known: Known, offset: int, place: int, op_offset: int, op_place: int, now: int, host: bytes
) -> bytes:  # fmt: skip
    # A closure would say the same; it is 0.6 us more, as each of its variables is made an object.
    (
        half, body_end, topic, packed, size, crc, real_queue_id, flag, sys_flag, born_timestamp, born_host, times,
        log_offset, body_size, op_size, number, op_flag, ended_by,
    ) = known  # fmt: skip
    final_head = HEAD.pack(
        size, MAGIC_V1, crc, real_queue_id, flag, offset, place, sys_flag & ~flags.TRANSACTION_MASK | flags.COMMITTED,
        born_timestamp, born_host, now, host, times, log_offset, body_size,
    )  # fmt: skip
    op_head = HEAD.pack(
        op_size, MAGIC_V1, crc32(number) & CRC_MASK, HALF_QUEUE_ID, op_flag, op_offset, op_place, 0, now, ended_by,
        now, host, 0, 0, len(number),
    )  # fmt: skip
    parts = (
        final_head, half[AT_BODY:body_end], topic, len(packed).to_bytes(2, "big"), packed, op_head, number, _OP_TAIL,
    )  # fmt: skip
    return b"".join(parts)


@lru_cache(maxsize=4096)
def _place_bytes(real_topic: str, real_queue_id: int) -> tuple[bytes, bytes]:
    """A topic as it stands in a record (``b""``: it is too long), and how the properties of its halves end."""
    topic = real_topic.encode()
    in_record = bytes((len(topic),)) + topic if len(topic) <= TOPIC_V1_MAX_BYTES else b""
    return in_record, f"\x02{with_real_place('', real_topic, real_queue_id, '')}".encode()


_COMMITTED: Final = int(Decision.COMMITTED)
_OP_TAIL: Final = tail_of(OP.encode(), _OP_PROPERTIES.encode())
_OPS: Final[list[Prepared]] = [
    (OP, HALF_QUEUE_ID, AT_BODY + digits + len(_OP_TAIL), OP_TAGS_CODE, _OP_PROPERTIES, "") for digits in range(20)
]
"""What is known of an op message, by the digits of the offset in its body."""


def op_record(
    half_queue_offset: int,
    decision: Decision,
    now_ms: int,
    ended_by: bytes,
    cause: int = Cause.PRODUCER,
    note: str = "",
) -> NewRecord:
    """The record that settles one copy of a half.

    One number without a comma: 5.x brokers read it like their own lists, and 4.x brokers read nothing else. What says
    who ended it and why stands where Apache's brokers do not look: ``ended_by`` (packed address) in the born host,
    ``cause`` in the flag, and ``note``, which operators give, in a property.
    """
    return NewRecord(
        topic=OP,
        queue_id=HALF_QUEUE_ID,
        body=b"%d" % half_queue_offset,
        properties=_OP_PROPERTIES + _noted(note) if note else _OP_PROPERTIES,
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
