"""The message that a check shows to a producer. It is a log record made from the record of the half message."""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.sizes import MAX_PROPERTIES_BYTES, TOPIC_V1_MAX_BYTES
from gantrymq.message.system_topics import HALF
from gantrymq.protocol.stored_message import (
    AT_BODY,
    AT_BODY_CRC,
    AT_QUEUE_OFFSET,
    AT_STORE_TIMESTAMP,
    CRC_MASK,
    FIXED_SIZE,
    birth_of,
    encode_moved,
    encode_record,
    parts_of,
    place_of,
)
from gantrymq.transactions.records.half import HalfFields, with_check_times

_PLACES: Final = struct.Struct(">qq")
_STORED: Final = struct.Struct(">q8s")
_HALF: Final = HALF.encode()
_CHECK_TIMES: Final = properties.CHECK_TIMES.encode()
_EARLY: Final = f"{properties.EARLY_CHECK}\x01true\x02"


def message_to_check(stored: StoredMessage, fields: HalfFields, checks: int, *, early: bool = False) -> bytes:
    """The half as a checker gets it: a record under the real topic and queue, at the place of the half.

    ``early``: the immunity of the half has not ended.
    """
    text = with_check_times(stored.properties_text, checks)
    if early:
        text += _EARLY
    _queue_id, queue_offset, log_offset, stored_at, store_host = place_of(stored)
    place = (fields.real_queue_id, queue_offset, log_offset, stored_at, store_host)
    return encode_record(fields.real_topic.encode(), stored.body, text.encode(), place, birth_of(stored))


def message_of_record(
    record: bytes, queue_offset: int, log_offset: int, group: str, real_topic: str, real_queue_id: int, checks: int
) -> bytes | None:
    """``message_to_check`` of a half that is given as it is stored, in about a third of the time. None when it is not
    one that our brokers wrote for that transaction: then ``message_to_check`` decides what it is."""
    if len(record) < FIXED_SIZE or len(record) != int.from_bytes(record[:4], "big"):
        return None
    try:
        parts = parts_of(record)
    except IndexError:  # a body that ends behind the record
        return None
    topic = real_topic.encode()
    if parts is None or len(topic) > TOPIC_V1_MAX_BYTES:
        return None
    body_end, properties_at = parts
    text = record[properties_at:]
    expected = (
        _PLACES.unpack_from(record, AT_QUEUE_OFFSET) == (queue_offset, log_offset)
        and int.from_bytes(record[AT_BODY_CRC : AT_BODY_CRC + 4], "big") == crc32(record[AT_BODY:body_end]) & CRC_MASK
        and record[body_end + 1 : properties_at - 2] == _HALF
        and b"\x02PGROUP\x01%b\x02" % group.encode() in b"\x02" + text
        and text.endswith(b"\x02REAL_TOPIC\x01%b\x02REAL_QID\x01%d\x02" % (topic, real_queue_id))
        and _CHECK_TIMES not in text
    )
    packed = b"%b%b\x01%d\x02" % (text, _CHECK_TIMES, checks)
    if not expected or len(packed) > MAX_PROPERTIES_BYTES:
        return None
    stored_at, store_host = _STORED.unpack_from(record, AT_STORE_TIMESTAMP)
    return encode_moved(
        record, body_end, topic, packed, real_queue_id, 0, 0, queue_offset, log_offset, stored_at, store_host
    )  # fmt: skip


def store_host_of(record: bytes) -> bytes:
    """The packed address in a record that ``message_of_record`` takes."""
    return record[AT_STORE_TIMESTAMP + 8 : AT_STORE_TIMESTAMP + 16]
