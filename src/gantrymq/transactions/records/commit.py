"""The commit of half messages that are given as they are stored: what stays as it is never becomes a value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias
from zlib import crc32

from gantrymq.errors import InvariantViolated
from gantrymq.message import flags
from gantrymq.message.message_types import NORMAL, TRANSACTION
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
from gantrymq.store.dispatch import Pending, tags_code_of
from gantrymq.store.log.appender import Appender
from gantrymq.transactions.records.half import HALF_QUEUE_ID, OP_PROPERTIES, OP_TAGS_CODE, with_real_place
from gantrymq.transactions.table.decisions import Decision
from gantrymq.transactions.table.open_half import OpenHalf

Pair: TypeAlias = tuple[tuple[bytes, ...], Pending, Pending]
"""A final message and its op message: the parts of their bytes, and both as records that are not visible yet."""


def append_commit(
    appender: Appender, half: OpenHalf, record: bytes, queue_id: int, ended_by: bytes, cause: int
) -> tuple[int, int, int] | None:
    """Append ``final_record`` of a half given as it is stored, and its ``op_record``, in a quarter of the time that
    it takes by way of values. Raises StoreUnavailable.

    The log offsets of the first record and behind the second one, and the queue offset of the second one. None, and
    nothing is appended, unless all hosts are IPv4 ones, the topic has at most 127 bytes, and the properties end with
    the half's real place. ``queue_id``: of the final message. ``record``: the half.
    """
    commits = _Commits(appender, half.real_topic, queue_id, ended_by, cause)
    place, limit, now = appender.begin_run()
    offset, op_offset = commits.queue.next_offset, commits.ops.next_offset
    pair = commits.pair(half, record, place, offset, op_offset, now)
    if pair is None:
        return None
    if pair[2][0] > limit:
        place, now = appender.begin_pair(pair[2][0] - place)
        pair = commits.pair(half, record, place, offset, op_offset, now)
        if pair is None:
            raise InvariantViolated("a commit has the same form at every place")
    parts, final, op = pair
    appender.add_pair(b"".join(parts), final, op)
    return place, op[0], op_offset


def append_commits(
    appender: Appender, halves: Sequence[OpenHalf], records: Sequence[bytes], queue_id: int, ended_by: bytes, cause: int
) -> tuple[list[int], int, int] | None:
    """``append_commit`` of halves for one topic, in one write.

    The log offset of each final message, the log offset behind the last record, and the queue offset of the first op
    message; the others follow it. None, and nothing is appended, where one half is not as ``append_commit`` needs it,
    or where not all of them fit into the current file.
    """
    commits = _Commits(appender, halves[0].real_topic, queue_id, ended_by, cause)
    place, limit, now = appender.begin_run()
    offset, op_offset = commits.queue.next_offset, commits.ops.next_offset
    first_op = op_offset
    parts: list[bytes] = []
    pending: list[Pending] = []
    places: list[int] = []
    for half, record in zip(halves, records, strict=True):
        pair = commits.pair(half, record, place, offset, op_offset, now)
        if pair is None:
            return None
        data, final, op = pair
        parts += data
        pending.append(final)
        pending.append(op)
        places.append(place)
        place, offset, op_offset = op[0], offset + 1, op_offset + 1
    if place > limit:
        return None
    commits.queue.next_offset, commits.ops.next_offset = offset, op_offset
    appender.add_run(b"".join(parts), pending)
    return places, place, first_op


class _Commits:
    """Makes the records of commits that go to one queue. ``ended_by``, ``cause``: see ``op_record``."""

    __slots__ = ("_cause", "_ended_by", "_queue_id", "_real_place", "_store_host", "_topic", "_topic_bytes", "ops",
                 "queue")  # fmt: skip

    def __init__(self, appender: Appender, topic: str, queue_id: int, ended_by: bytes, cause: int) -> None:
        self._topic = topic
        self._queue_id = queue_id
        self._ended_by = ended_by
        self._cause = cause
        self._store_host = appender.store_host
        self._topic_bytes, self._real_place = _place_bytes(topic, queue_id)
        self.queue, self.ops = appender.queue(topic, queue_id), appender.queue(OP, HALF_QUEUE_ID)

    def pair(self, half: OpenHalf, record: bytes, place: int, offset: int, op_offset: int, now: int) -> Pair | None:
        """The records at log offset ``place``, with these queue offsets. None: see ``append_commit``."""
        magic, crc, flag, sys_flag, born_timestamp, born_host, times, body_size = MOVED.unpack_from(record, AT_MAGIC)
        topic_bytes, real_place, store_host, ended_by = (
            self._topic_bytes, self._real_place, self._store_host, self._ended_by
        )  # fmt: skip
        if magic != MAGIC_V1 or sys_flag & HOSTS_V6 or not topic_bytes or not record.endswith(real_place):
            return None
        if len(ended_by) != 8 or len(store_host) != 8:
            return None
        body_end = AT_BODY + body_size
        packed = record[body_end + 3 + record[body_end] : 1 - len(real_place)]
        text = packed.decode()
        number = b"%d" % half.queue_offset
        size = body_end + len(topic_bytes) + 2 + len(packed)
        op_size = AT_BODY + len(number) + len(_OP_TAIL)
        middle = place + size
        end = middle + op_size
        final_head = HEAD.pack(
            size, MAGIC_V1, crc, self._queue_id, flag, offset, place,
            sys_flag & ~flags.TRANSACTION_MASK | flags.COMMITTED, born_timestamp, born_host, now, store_host, times,
            half.log_offset, body_size,
        )  # fmt: skip
        op_head = HEAD.pack(
            op_size, MAGIC_V1, crc32(number) & CRC_MASK, HALF_QUEUE_ID, _COMMITTED | self._cause, op_offset, middle, 0,
            now, ended_by, now, store_host, 0, 0, len(number),
        )  # fmt: skip
        tags = tags_code_of(text) if half.tags_code is None else half.tags_code
        return (
            (final_head, record[AT_BODY:body_end], topic_bytes, len(packed).to_bytes(2, "big"), packed, op_head,
             number, _OP_TAIL),
            (middle, self.queue, offset, place, size, tags, text, now, self._topic, half.unique_key,
             TRANSACTION),
            (end, self.ops, op_offset, middle, op_size, OP_TAGS_CODE, OP_PROPERTIES, now, OP, "", NORMAL),
        )  # fmt: skip


@lru_cache(maxsize=4096)
def _place_bytes(real_topic: str, real_queue_id: int) -> tuple[bytes, bytes]:
    """A topic as it stands in a record (``b""``: it is too long), and how the properties of its halves end."""
    topic = real_topic.encode()
    in_record = bytes((len(topic),)) + topic if len(topic) <= TOPIC_V1_MAX_BYTES else b""
    return in_record, f"\x02{with_real_place('', real_topic, real_queue_id, '')}".encode()


_COMMITTED: Final = int(Decision.COMMITTED)
_OP_TAIL: Final = tail_of(OP.encode(), OP_PROPERTIES.encode())
