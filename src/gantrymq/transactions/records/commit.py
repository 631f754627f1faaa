"""The commit of a half message that is still in memory, appended without making values of what stays as it is."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from zlib import crc32

from gantrymq.message import flags
from gantrymq.message.system_topics import OP
from gantrymq.protocol.stored_message import (
    AT_BODY,
    AT_MAGIC,
    CRC_MASK,
    HEAD,
    HOSTS_V6,
    MAGIC_V1,
    MOVED,
    TOPIC_V1_MAX_BYTES,
    tail_of,
)
from gantrymq.store.dispatch import tags_code_of
from gantrymq.store.log.appender import Appender
from gantrymq.transactions.records.half import HALF_QUEUE_ID, OP_PROPERTIES, OP_TAGS_CODE, with_real_place
from gantrymq.transactions.table.decisions import Decision
from gantrymq.transactions.table.open_half import OpenHalf


def append_commit(
    appender: Appender, half: OpenHalf, record: bytes, queue_id: int, ended_by: bytes, cause: int
) -> tuple[int, int, int] | None:
    """Append ``final_record`` of a half given as it is stored, and its ``op_record``, in a quarter of the time that
    it takes by way of values. Raises StoreUnavailable.

    The log offsets of the first record and behind the second one, and the queue offset of the second one. None, and
    nothing is appended, unless all hosts are IPv4 ones, the topic has at most 127 bytes, and the properties end with
    the half's real place. ``queue_id``: of the final message. ``record``: the half.
    """
    topic = half.real_topic
    topic_bytes, real_place = _place_bytes(topic, queue_id)
    magic, crc, flag, sys_flag, born_timestamp, born_host, times, body_size = MOVED.unpack_from(record, AT_MAGIC)
    if magic != MAGIC_V1 or sys_flag & HOSTS_V6 or not topic_bytes or not record.endswith(real_place):
        return None
    store_host = appender.store_host
    if len(ended_by) != 8 or len(store_host) != 8:
        return None
    body_end = AT_BODY + body_size
    packed = record[body_end + 3 + record[body_end] : 1 - len(real_place)]
    text = packed.decode()
    number = b"%d" % half.queue_offset
    size = body_end + len(topic_bytes) + 2 + len(packed)
    op_size = AT_BODY + len(number) + len(_OP_TAIL)
    queue, ops = appender.queue(topic, queue_id), appender.queue(OP, HALF_QUEUE_ID)
    place, now = appender.begin_pair(size + op_size)
    middle = place + size
    end = middle + op_size
    offset, op_offset = queue.next_offset, ops.next_offset
    final_head = HEAD.pack(
        size, MAGIC_V1, crc, queue_id, flag, offset, place, sys_flag & ~flags.TRANSACTION_MASK | flags.COMMITTED,
        born_timestamp, born_host, now, store_host, times, half.log_offset, body_size,
    )  # fmt: skip
    op_head = HEAD.pack(
        op_size, MAGIC_V1, crc32(number) & CRC_MASK, HALF_QUEUE_ID, _COMMITTED | cause, op_offset, middle, 0, now,
        ended_by, now, store_host, 0, 0, len(number),
    )  # fmt: skip
    data = b"".join(
        (final_head, record[AT_BODY:body_end], topic_bytes, len(packed).to_bytes(2, "big"), packed, op_head, number,
         _OP_TAIL)
    )  # fmt: skip
    tags = tags_code_of(text) if half.tags_code is None else half.tags_code
    appender.add_pair(
        data,
        (middle, queue, offset, place, size, tags, text, now, topic, half.unique_key),
        (end, ops, op_offset, middle, op_size, OP_TAGS_CODE, OP_PROPERTIES, now, OP, ""),
    )
    return place, end, op_offset


@lru_cache(maxsize=4096)
def _place_bytes(real_topic: str, real_queue_id: int) -> tuple[bytes, bytes]:
    """A topic as it stands in a record (``b""``: it is too long), and how the properties of its halves end."""
    topic = real_topic.encode()
    in_record = bytes((len(topic),)) + topic if len(topic) <= TOPIC_V1_MAX_BYTES else b""
    return in_record, f"\x02{with_real_place('', real_topic, real_queue_id, '')}".encode()


_COMMITTED: Final = int(Decision.COMMITTED)
_OP_TAIL: Final = tail_of(OP.encode(), OP_PROPERTIES.encode())
