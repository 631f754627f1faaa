"""The commit of half messages that are given as they are stored: what stays as it is never becomes a value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias
from zlib import crc32

from gantrymq.errors import InvariantViolated
from gantrymq.message import flags
from gantrymq.message.message_types import NORMAL, TRANSACTION
from gantrymq.message.sizes import TOPIC_V1_MAX_BYTES
from gantrymq.message.system_topics import OP
from gantrymq.protocol.stored_message import AT_BODY, AT_MAGIC, CRC_MASK, HEAD, HOSTS_V6, MAGIC_V1, MOVED, tail_of
from gantrymq.store.dispatch import Pending, tags_code_of
from gantrymq.store.log.appender import Appender
from gantrymq.transactions.records.half import (
    HALF_QUEUE_ID,
    OP_BYTES_MAX,
    OP_PROPERTIES,
    OP_TAGS_CODE,
    op_bodies,
    with_real_place,
)
from gantrymq.transactions.table.decisions import Decision
from gantrymq.transactions.table.open_halves import OpenHalf

Parts: TypeAlias = tuple[bytes, ...]
Appended: TypeAlias = tuple[list[bytes], list[Pending]]
"""Records that follow each other: the parts of their bytes, and the records, which are not visible yet."""


def append_commit(
    appender: Appender, half: OpenHalf, record: bytes, queue_id: int, ended_by: bytes, cause: int
) -> int | None:
    """Append ``final_record`` of a half given as it is stored, and its ``op_record``, in a quarter of the time that
    it takes by way of values. Raises StoreUnavailable.

    The log offset behind both. None, and nothing is appended, unless all hosts are IPv4 ones, the topic has at most 127
    bytes, and the properties end with the half's real place. ``queue_id``: of the final message. ``record``: the half.
    """
    commits = _Commits(appender, half.real_topic, queue_id, ended_by, cause)
    place, limit, now = appender.begin_run()
    pair = commits.pair(half, record, place, now)
    if pair is None:
        return None
    if pair[2][0] > limit:
        place, now = appender.begin_pair(pair[2][0] - place)
        pair = commits.pair(half, record, place, now)
        if pair is None:
            raise InvariantViolated("a commit has the same form at every place")
    parts, final, op = pair
    appender.add_pair(b"".join(parts), final, op)
    return op[0]


def append_commits(
    appender: Appender, halves: Sequence[OpenHalf], records: Sequence[bytes], queue_id: int, ended_by: bytes,
    cause: int, op_bytes: int = OP_BYTES_MAX,
) -> int | None:  # fmt: skip
    """``append_commit`` of halves for one topic, in one write: their final messages, and behind them the op messages,
    each of which names as many halves as fit into ``op_bytes``.

    The log offset behind them. None, and nothing is appended, where one half is not as ``append_commit`` needs it, or
    where not all of them fit into the current file.
    """
    commits = _Commits(appender, halves[0].real_topic, queue_id, ended_by, cause, op_bytes)
    place, limit, now = appender.begin_run()
    made = commits.made(halves, records, place, now)
    if made is None:
        return None
    parts, pending = made
    end = pending[-1][0]
    if end > limit:
        return None
    commits.queue.next_offset += len(halves)
    commits.ops.next_offset += len(pending) - len(halves)
    appender.add_run(b"".join(parts), pending)
    return end


class _Commits:
    """Makes the records of commits that go to one queue. ``ended_by``, ``cause``: see ``op_record``."""

    __slots__ = ("_cause", "_ended_by", "_op_bytes", "_queue_id", "_real_place", "_store_host", "_topic",
                 "_topic_bytes", "ops", "queue")  # fmt: skip

    def __init__(
        self, appender: Appender, topic: str, queue_id: int, ended_by: bytes, cause: int, op_bytes: int = OP_BYTES_MAX
    ) -> None:
        self._op_bytes = op_bytes
        self._topic = topic
        self._queue_id = queue_id
        self._ended_by = ended_by
        self._cause = cause
        self._store_host = appender.store_host
        self._topic_bytes, self._real_place = _place_bytes(topic, queue_id)
        self.queue, self.ops = appender.queue(topic, queue_id), appender.queue(OP, HALF_QUEUE_ID)

    def pair(self, half: OpenHalf, record: bytes, place: int, now: int) -> tuple[Parts, Pending, Pending] | None:
        """The records of one commit at log offset ``place``. None: see ``append_commit``."""
        final = self._final(half, record, place, self.queue.next_offset, now)
        if final is None:
            return None
        parts, pending = final
        op_parts, op = self._op(b"%d" % half.queue_offset, pending[0], self.ops.next_offset, now)
        return parts + op_parts, pending, op

    def made(self, halves: Sequence[OpenHalf], records: Sequence[bytes], place: int, now: int) -> Appended | None:
        """The records of these commits at log offset ``place``: the final messages, then the op messages. None: see
        ``append_commit``."""
        offset, op_offset, make = self.queue.next_offset, self.ops.next_offset, self._final
        parts: list[bytes] = []
        pending: list[Pending] = []
        for half, record in zip(halves, records, strict=True):
            final = make(half, record, place, offset, now)
            if final is None:
                return None
            parts += final[0]
            pending.append(final[1])
            place, offset = final[1][0], offset + 1
        for body in op_bodies([half.queue_offset for half in halves], self._op_bytes):
            op_parts, op = self._op(body, place, op_offset, now)
            parts += op_parts
            pending.append(op)
            place, op_offset = op[0], op_offset + 1
        return parts, pending

    def _final(self, half: OpenHalf, record: bytes, place: int, offset: int, now: int) -> tuple[Parts, Pending] | None:
        magic, crc, flag, sys_flag, born_timestamp, born_host, times, body_size = MOVED.unpack_from(record, AT_MAGIC)
        topic_bytes, real_place, store_host = self._topic_bytes, self._real_place, self._store_host
        if magic != MAGIC_V1 or sys_flag & HOSTS_V6 or not topic_bytes or not record.endswith(real_place):
            return None
        if len(self._ended_by) != 8 or len(store_host) != 8:
            return None
        body_end = AT_BODY + body_size
        packed = record[body_end + 3 + record[body_end] : 1 - len(real_place)]
        text, length = packed.decode(), len(packed)
        size = body_end + len(topic_bytes) + 2 + length
        head = HEAD.pack(
            size, MAGIC_V1, crc, self._queue_id, flag, offset, place,
            sys_flag & ~flags.TRANSACTION_MASK | flags.COMMITTED, born_timestamp, born_host, now, store_host, times,
            half.log_offset, body_size,
        )  # fmt: skip
        tags = tags_code_of(text) if half.tags_code is None else half.tags_code
        return (
            (head, record[AT_BODY:body_end], topic_bytes, length.to_bytes(2, "big"), packed),
            (place + size, self.queue, offset, place, size, tags, text, now, self._topic, half.unique_key, TRANSACTION),
        )

    def _op(self, body: bytes, place: int, offset: int, now: int) -> tuple[Parts, Pending]:
        size = AT_BODY + len(body) + len(_OP_TAIL)
        head = HEAD.pack(
            size, MAGIC_V1, crc32(body) & CRC_MASK, HALF_QUEUE_ID, _COMMITTED | self._cause, offset, place, 0,
            now, self._ended_by, now, self._store_host, 0, 0, len(body),
        )  # fmt: skip
        return (
            (head, body, _OP_TAIL),
            (place + size, self.ops, offset, place, size, OP_TAGS_CODE, OP_PROPERTIES, now, OP, "", NORMAL),
        )


@lru_cache(maxsize=4096)
def _place_bytes(real_topic: str, real_queue_id: int) -> tuple[bytes, bytes]:
    """A topic as it stands in a record (``b""``: it is too long), and how the properties of its halves end."""
    topic = real_topic.encode()
    in_record = bytes((len(topic),)) + topic if len(topic) <= TOPIC_V1_MAX_BYTES else b""
    return in_record, f"\x02{with_real_place('', real_topic, real_queue_id, '')}".encode()


_COMMITTED: Final = int(Decision.COMMITTED)
_OP_TAIL: Final = tail_of(OP.encode(), OP_PROPERTIES.encode())
