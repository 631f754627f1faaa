"""The way into the log: records get their places, and are written at the end of the turn (``store.log.writer``)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias
from zlib import crc32

from gantrymq.errors import InvariantViolated, MessageIllegal
from gantrymq.message import flags
from gantrymq.message.message_types import DELAY, TRANSACTION, plain_type, type_in
from gantrymq.message.sizes import MAX_PROPERTIES_BYTES, TOPIC_V1_MAX_BYTES
from gantrymq.protocol.stored_message import CRC_MASK, FIXED_SIZE, HEAD, HOSTS_V6, MAGIC_V1, Birth, encode_record
from gantrymq.runtime.clock import Clock
from gantrymq.store.dispatch import Dispatch, Pending, further_entry, tags_code_of
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.records import NO_QUEUE_ENTRY
from gantrymq.store.log.writer import LogWriter
from gantrymq.store.queues.consume_queue import ConsumeQueue
from gantrymq.store.queues.multi_dispatch import NUMBER, further_place
from gantrymq.store.queues.queue_table import QueueTable
from gantrymq.store.values import NewRecord, Placement

APPENDS_PER_WRITE = 16
"""Appends that are written together within one turn of the loop: the disk and whoever waits for the first ones begin
while the others are made. Beyond about ten the system call no longer shows in their cost."""

RunItem: TypeAlias = tuple[bytes, str, int, str | None, int | None]
"""A record of a run: body, properties text, flag, and unique key and tags code as of ``append_plain``."""
Run: TypeAlias = tuple[int, int, list[int], list[bytes]]
"""Where a run was put: queue offset of the first record, store time (ms), and of each record the log offset and its
bytes."""


class Appender:
    """Gives every record its place in the log and in its queue."""

    def __init__(
        self,
        writer: LogWriter,
        clock: Clock,
        commit_log: CommitLog,
        queues: QueueTable,
        dispatch: Dispatch,
        store_host: bytes,
        last_timestamp: int,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._log = commit_log
        self._queues = queues
        self._dispatch = dispatch
        self.store_host = store_host
        self._last_timestamp = last_timestamp

    def append(self, records: Sequence[NewRecord]) -> list[Placement]:
        """See ``MessageStore.append``."""
        now = self._begin()
        placements = [self._append_one(records[0], now)] if len(records) == 1 else self._append_group(records, now)
        self._writer.appended()
        return placements

    def append_to_two(self, record: NewRecord, name: str) -> Placement:
        """``append`` of one record that also takes a place in the queue ``name``; its properties say so then."""
        now = self._begin()
        further = self.queue(name, NUMBER)
        number = further.next_offset
        record.properties += further_place(name, number)
        tags = record.tags_code = tags_code_of(record.properties)
        placement = self._append_one(record, now)
        further.next_offset = number + 1
        self._dispatch.add(further_entry(placement.end, further, number, placement.log_offset, now, tags))
        self._writer.appended()
        return placement

    def saw(self, stored: int) -> None:
        """A record with this store time (ms) is in the log, and no later one has an earlier time."""
        self._last_timestamp = max(self._last_timestamp, stored)

    def _begin(self) -> int:
        """What every append begins with; the store time of its records, ms."""
        writer = self._writer
        if writer.unwritten >= APPENDS_PER_WRITE:
            writer.write_out()  # whoever waits for it is told when it fails
        if writer.closed is not None:
            writer.check_refusal()
        if writer.room.tight:
            writer.room.prepare(0)  # the append may begin a file of the log
        if writer.unwritten:
            return self._last_timestamp  # records of one write have one store time: the clock shows in a send's cost
        now = self._clock.wall_ms()
        if now < self._last_timestamp:  # store times never go back: searches by time rely on that
            return self._last_timestamp
        self._last_timestamp = now
        return now

    def append_plain(
        self, topic: str, queue_id: int, body: bytes, text: str, birth: Birth, key: str | None = None,
        tags_code: int | None = None,
    ) -> Placement:  # fmt: skip
        """``append`` for one record of an ordinary message, given by its parts: what a broker does all day.

        ``key``: its unique key, where the caller has found it already (``""``: it has none). ``tags_code``: what the
        queue entry holds, likewise.
        """
        queue = self._queues.get((topic, queue_id))
        commit_log = self._log
        if queue is None or self._writer.closed is not None or birth[3] & NO_QUEUE_ENTRY:
            born_timestamp, born_host, flag, sys_flag, times = birth
            return self.append(
                (NewRecord(topic, queue_id, body, text, born_timestamp, born_host, flag, sys_flag, times),)
            )[0]
        now = self._begin()
        packed = text.encode()
        place, queue_offset = commit_log.appended, queue.next_offset
        data = encode_record(
            queue.topic_bytes, body, packed, (queue_id, queue_offset, place, now, self.store_host), birth
        )  # fmt: skip
        size = len(data)
        if place + size > commit_log.limit:
            place = commit_log.place(size)
            data = encode_record(
                queue.topic_bytes, body, packed, (queue_id, queue_offset, place, now, self.store_host), birth
            )
        queue.next_offset = queue_offset + 1
        commit_log.add(data)
        tags = tags_code_of(text) if tags_code is None else tags_code
        kind = queue.kind or plain_type(text)
        self._dispatch.add((place + size, queue, queue_offset, place, size, tags, text, now, topic, key, kind))
        self._writer.appended()
        return Placement(place, size, queue_offset, now, data)

    def append_run(self, topic: str, queue_id: int, items: Sequence[RunItem], birth: Birth) -> Run | None:
        """``append_plain`` for many records of one queue, in half the time. ``birth``: of all; each item has its flag.

        None, and nothing is appended, where they do not all fit into the current file, or are no V1 records with IPv4
        hosts: then append them one by one. They go into one write.
        """
        queue = self._queues.get((topic, queue_id))
        born_timestamp, born_host, _, sys_flag, times = birth
        store_host = self.store_host
        if queue is None or sys_flag & NO_QUEUE_ENTRY or len(born_host) != 8 or len(store_host) != 8:
            return None
        name = queue.topic_bytes
        if len(name) > TOPIC_V1_MAX_BYTES:
            return None
        place, limit, now = self.begin_run()
        before, in_record, sys_flag = queue.next_offset, bytes((len(name),)) + name, sys_flag & ~HOSTS_V6
        offset, without_parts = before, FIXED_SIZE + len(name)
        places: list[int] = []
        records: list[bytes] = []
        pending: list[Pending] = []
        try:
            for body, text, flag, key, tags in items:
                packed = text.encode()
                length = len(packed)
                if length > MAX_PROPERTIES_BYTES:
                    raise MessageIllegal(f"the properties have {length} bytes; at most {MAX_PROPERTIES_BYTES} fit")
                size = without_parts + len(body) + length
                head = HEAD.pack(
                    size, MAGIC_V1, crc32(body) & CRC_MASK, queue_id, flag, offset, place, sys_flag, born_timestamp,
                    born_host, now, store_host, times, 0, len(body),
                )  # fmt: skip
                records.append(b"".join((head, body, in_record, length.to_bytes(2, "big"), packed)))
                places.append(place)
                end = place + size
                tags = tags_code_of(text) if tags is None else tags
                kind = queue.kind or plain_type(text)
                pending.append((end, queue, offset, place, size, tags, text, now, topic, key, kind))
                place, offset = end, offset + 1
        except struct.error as error:
            raise MessageIllegal(f"a number of the message does not fit into its field: {error}") from error
        if place > limit or not records:
            return None
        queue.next_offset = offset
        self.add_run(b"".join(records), pending)
        return before, now, places, records

    # ---- records that somebody else encodes

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Where a record will be found: ``next_offset`` is its queue offset. New when there is none."""
        return self._queues.get((topic, queue_id)) or self._queues.make(topic, queue_id)

    def begin_pair(self, size: int) -> tuple[int, int]:
        """Where ``size`` bytes will lie, and their store time (ms); ``add_pair`` follows, or nothing has happened."""
        now = self._begin()
        return self._log.place(size), now

    def add_pair(self, data: bytes, first: Pending, second: Pending) -> None:
        """``append`` of two records of different queues that lie side by side in one write."""
        queue, queue2 = first[1], second[1]
        if queue is None or queue2 is None or queue is queue2 or len(data) != first[4] + second[4]:
            raise InvariantViolated("a pair has the sizes that it says and goes into two queues")
        self._log.add(data)
        queue.next_offset = first[2] + 1
        queue2.next_offset = second[2] + 1
        self._dispatch.add(first)
        self._dispatch.add(second)
        self._writer.appended()

    def begin_run(self) -> tuple[int, int, int]:
        """Where the next records will lie, how far they may reach, and their store time (ms)."""
        now = self._begin()
        return self._log.appended, self._log.limit, now

    def add_run(self, data: bytes, records: Sequence[Pending]) -> None:
        """Append records that lie side by side in one write, and have taken their queue offsets."""
        if not records or records[-1][0] != self._log.appended + len(data):
            raise InvariantViolated("a run has the sizes that it says")
        self._log.add(data)
        self._dispatch.add_all(records)
        self._writer.appended()

    # ---- records of all kinds

    def _append_one(self, record: NewRecord, now: int) -> Placement:
        queue = self._queues.get((record.topic, record.queue_id)) or self._queues.make(record.topic, record.queue_id)
        in_queue = not record.sys_flag & NO_QUEUE_ENTRY
        queue_offset = queue.next_offset if in_queue else 0
        commit_log = self._log
        place = commit_log.appended
        text = record.properties.encode()
        data = self._encode(record, text, queue, queue_offset, place, now)
        if commit_log.place(len(data)) != place:
            place = commit_log.appended
            data = self._encode(record, text, queue, queue_offset, place, now)
        if in_queue:
            queue.next_offset = queue_offset + 1
        return self._add(record, queue if in_queue else None, queue_offset, place, data, now)

    def _append_group(self, records: Sequence[NewRecord], now: int) -> list[Placement]:
        """All records in one file and one write, or none of them."""
        queues = [
            self._queues.get((record.topic, record.queue_id)) or self._queues.make(record.topic, record.queue_id)
            for record in records
        ]
        before = [queue.next_offset for queue in queues]
        texts = [record.properties.encode() for record in records]
        try:
            start = self._log.appended
            items = self._encode_group(records, texts, queues, start, now)
            if self._log.place(sum([len(item[4]) for item in items])) != start:
                _give_back(queues, before)
                items = self._encode_group(records, texts, queues, self._log.appended, now)
        except BaseException:
            _give_back(queues, before)
            raise
        return [self._add(*item, now) for item in items]

    def _encode_group(
        self, records: Sequence[NewRecord], texts: list[bytes], queues: list[ConsumeQueue], place: int, now: int
    ) -> list[tuple[NewRecord, ConsumeQueue | None, int, int, bytes]]:
        """Append the records unchanged at log offset ``place``; their queue offsets are assigned already."""
        items: list[tuple[NewRecord, ConsumeQueue | None, int, int, bytes]] = []
        for record, text, queue in zip(records, texts, queues, strict=True):
            in_queue = not record.sys_flag & NO_QUEUE_ENTRY
            queue_offset = queue.next_offset if in_queue else 0
            data = self._encode(record, text, queue, queue_offset, place, now)
            items.append((record, queue if in_queue else None, queue_offset, place, data))
            queue.next_offset += in_queue
            place += len(data)
        return items

    def _encode(
        self, record: NewRecord, text: bytes, queue: ConsumeQueue, queue_offset: int, where: int, now: int
    ) -> bytes:
        return encode_record(
            queue.topic_bytes, record.body, text,
            (record.queue_id, queue_offset, where, now, record.store_host or self.store_host),
            (record.born_timestamp, record.born_host, record.flag, record.sys_flag, record.reconsume_times),
            record.prepared_transaction_offset,
        )  # fmt: skip

    def _add(
        self, record: NewRecord, queue: ConsumeQueue | None, queue_offset: int, place: int, data: bytes, now: int
    ) -> Placement:
        self._log.add(data)
        size = len(data)
        tags = record.tags_code
        text = record.properties
        if tags is None:
            tags = tags_code_of(text)
        kind = _type_of(record)
        self._dispatch.add((place + size, queue, queue_offset, place, size, tags, text, now, record.topic, None, kind))
        return Placement(place, size, queue_offset, now, data)


def _type_of(record: NewRecord) -> int:
    """The type of a record of any kind: a commit's final message, or the copy of one that has waited for its time."""
    if record.sys_flag & flags.TRANSACTION_MASK:
        return TRANSACTION
    if record.prepared_transaction_offset:
        return DELAY
    return type_in(record.topic) or plain_type(record.properties)


def _give_back(queues: list[ConsumeQueue], offsets: list[int]) -> None:
    for queue, offset in zip(queues, offsets, strict=True):
        queue.next_offset = offset
