"""The way into the log: append, write at the end of the turn, sync; and what if one fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gantrymq.errors import DiskFull, InvariantViolated, StoreError, StoreUnavailable, TooManyOpenFiles
from gantrymq.protocol.stored_message import encode_record
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.disk import Disk
from gantrymq.store.config import FlushDiskType, StoreConfig
from gantrymq.store.dispatch import Dispatch, tags_code_of
from gantrymq.store.files.checkpoint import MarkFile
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.flush import Done, Flusher
from gantrymq.store.log.records import NO_QUEUE_ENTRY
from gantrymq.store.log.safety import LogSafety
from gantrymq.store.queues.consume_queue import ConsumeQueue
from gantrymq.store.queues.queue_table import QueueTable
from gantrymq.store.space import Space
from gantrymq.store.values import EncodePair, Known, NewRecord, Placement, Prepared

log = logging.getLogger("gantrymq.store")

BUFFER_LIMIT_BYTES = 4 << 20
"""Appended bytes that are written at once instead of at the end of the loop's turn."""
APPENDS_PER_WRITE = 16
"""Appends that are written together within one turn of the loop: the disk and whoever waits for the first ones begin
while the others are made. Beyond about ten the system call no longer shows in their cost."""
SPACE_CHECK_SECONDS = 10.0
"""How long an answer of the file system about its free space is believed."""


class Appender:
    """Owns the positions of the log while it is open. ``changed`` is called after every write that succeeded."""

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        space: Space,
        clock: Clock,
        store_host: bytes,
        commit_log: CommitLog,
        queues: QueueTable,
        dispatch: Dispatch,
        safety: LogSafety,
        mark_file: MarkFile,
        last_timestamp: int,
        changed: Callable[[], None],
    ) -> None:
        self._config = config
        self._space = space
        self._clock = clock
        self._store_host = store_host
        self._log = commit_log
        self._queues = queues
        self._dispatch = dispatch
        self._safety = safety
        self._mark_file = mark_file
        self._last_timestamp = last_timestamp
        self._changed = changed
        self._sync_first = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._flusher = Flusher(disk, commit_log, self._sync_ended)
        self._flush_timer: Timer | None = None
        self._turn_armed = False
        self._unwritten = 0
        """Appends since the last write."""
        self.refusal: StoreUnavailable | None = None
        """Why appends are refused: until there is space again, or for good."""
        self.final: StoreUnavailable | None = None
        """Why the store will never take an append again."""
        self._space_checked = clock.monotonic() - SPACE_CHECK_SECONDS

    # ---- append

    def append(self, records: Sequence[NewRecord]) -> list[Placement]:
        """See ``MessageStore.append``."""
        now = self._begin()
        placements = [self._append_one(records[0], now)] if len(records) == 1 else self._append_group(records, now)
        self._appended()
        return placements

    def _begin(self) -> int:
        """What every append begins with; the store time of its records, ms."""
        if self._unwritten >= APPENDS_PER_WRITE:
            self.write_out()  # whoever waits for it is told when it fails
        if self.refusal is not None:
            self._check_refusal()
        if self._unwritten:
            return self._last_timestamp  # records of one write have one store time: the clock shows in a send's cost
        now = self._clock.wall_ms()
        if now < self._last_timestamp:  # store times never go back: searches by time rely on that
            return self._last_timestamp
        self._last_timestamp = now
        return now

    def _appended(self) -> None:
        """What every append ends with."""
        self._unwritten += 1
        if not self._turn_armed:
            self._turn_armed = True
            self._clock.call_soon(self._end_turn)
        if self._log.appended - self._log.written > BUFFER_LIMIT_BYTES:
            error = self.write_out()
            if error is not None:
                raise error

    def append_plain(
        self, topic: str, queue_id: int, body: bytes, text: str, born_timestamp: int, born_host: bytes, flag: int,
        sys_flag: int, reconsume_times: int, key: str | None = None, tags_code: int | None = None,
    ) -> Placement:  # fmt: skip
        """``append`` for one record of an ordinary message, given by its fields: what a broker does all day.

        It costs 3 us less than with an object. ``key``: its unique key, where the caller has found it already (``""``:
        it has none). ``tags_code``: what the queue entry holds, likewise.
        """
        queue = self._queues.get((topic, queue_id))
        commit_log = self._log
        if queue is None or self.refusal is not None or sys_flag & NO_QUEUE_ENTRY:
            return self.append(
                (NewRecord(topic, queue_id, body, text, born_timestamp, born_host, flag, sys_flag, reconsume_times),)
            )[0]
        now = self._begin()
        packed = text.encode()
        place, queue_offset = commit_log.appended, queue.next_offset
        data = encode_record(
            queue.topic_bytes, body, packed, queue_id, queue_offset, place, born_timestamp, born_host, now,
            self._store_host, flag, sys_flag, reconsume_times,
        )  # fmt: skip
        size = len(data)
        if place + size > commit_log.limit:
            place = commit_log.place(size)
            data = encode_record(
                queue.topic_bytes, body, packed, queue_id, queue_offset, place, born_timestamp, born_host, now,
                self._store_host, flag, sys_flag, reconsume_times,
            )  # fmt: skip
        queue.next_offset = queue_offset + 1
        commit_log.add(data)
        tags = tags_code_of(text) if tags_code is None else tags_code
        self._dispatch.add((place + size, queue, queue_offset, place, size, tags, text, now, topic, key))
        self._appended()
        return Placement(place, size, queue_offset, now, data)

    def append_pair(self, first: Prepared, second: Prepared, encode: EncodePair, known: Known) -> tuple[int, int, int]:
        """``append`` of two records in different queues of which all but their places is ``known``; ``encode`` makes
        them. It costs a quarter.

        The log offsets of the first one and behind the second one, and the queue offset of the second one.
        """
        topic, queue_id, size, tags, text, key = first
        topic2, queue_id2, size2, tags2, text2, key2 = second
        queue = self._queues.get((topic, queue_id)) or self._queues.make(topic, queue_id)
        queue2 = self._queues.get((topic2, queue_id2)) or self._queues.make(topic2, queue_id2)
        if queue is queue2:
            raise InvariantViolated("the records of a pair go into different queues")
        now = self._begin()
        commit_log = self._log
        place = commit_log.place(size + size2)
        middle = place + size
        end = middle + size2
        offset, offset2 = queue.next_offset, queue2.next_offset
        data = encode(known, offset, place, offset2, middle, now, self._store_host)
        if len(data) != size + size2:
            raise InvariantViolated("prepared records have the sizes they say")
        commit_log.add(data)
        queue.next_offset = offset + 1
        queue2.next_offset = offset2 + 1
        follow = self._dispatch.add
        follow((middle, queue, offset, place, size, tags, text, now, topic, key))
        follow((end, queue2, offset2, middle, size2, tags2, text2, now, topic2, key2))
        self._appended()
        return place, end, offset2

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
            queue.topic_bytes, record.body, text, record.queue_id, queue_offset, where,
            record.born_timestamp, record.born_host, now, record.store_host or self._store_host, record.flag,
            record.sys_flag, record.reconsume_times, record.prepared_transaction_offset,
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
        self._dispatch.add((place + size, queue, queue_offset, place, size, tags, text, now, record.topic, None))
        return Placement(place, size, queue_offset, now, data)

    # ---- refusal

    def _check_refusal(self) -> None:
        """Raise while appends are refused; a full disk is looked at again from time to time."""
        if self.final is None and self._clock.monotonic() - self._space_checked >= SPACE_CHECK_SECONDS:
            self._check_space()
        if self.refusal is not None:
            raise self.refusal

    def _check_space(self) -> None:
        self._space_checked = self._clock.monotonic()
        path, ratio = self._space.fullest()
        limit = self._config.disk_space_warning_ratio
        self.refusal = self.final
        if ratio > limit and self.final is None:
            self.refusal = DiskFull(
                f"the file system of {path} is {ratio:.1%} full, above diskSpaceWarningLevelRatio "
                f"({limit:.0%}); free space, then writes continue by themselves"
            )
            log.error("%s", self.refusal)

    def stop(self, reason: StoreUnavailable) -> None:
        """Refuse appends for good."""
        self.final = self.refusal = self._safety.stopped = reason

    # ---- write

    def _end_turn(self) -> None:
        self._turn_armed = False
        self.write_out()

    def write_out(self) -> StoreUnavailable | None:
        """One write of everything appended; then a sync (SYNC_FLUSH) or its timer (ASYNC_FLUSH). The error, if any."""
        commit_log = self._log
        self._unwritten = 0
        if commit_log.appended == commit_log.written:
            return None
        if self._clock.monotonic() - self._space_checked >= SPACE_CHECK_SECONDS:
            self._check_space()
        try:
            commit_log.write_out()
        except (StoreError, OSError) as error:
            return self._write_failed(error)
        position = commit_log.written
        if self._sync_first:
            self._flusher.start()
        else:
            self._safety.stored_here(position)
            if self._flush_timer is None:
                self._flush_timer = self._clock.call_later(self._config.flush_interval_commit_log / 1000, self._flush)
        self._safety.written(position)
        self._changed()
        return None

    def _write_failed(self, error: StoreError | OSError) -> StoreUnavailable:
        """Nothing of the write is stored: positions and queue offsets are reset, and all waiting callers are told."""
        log.error("writing the log failed; nothing of it was acknowledged: %s", error)
        if isinstance(error, DiskFull | TooManyOpenFiles):
            self._safety.taken_back(self._log.written, error)
            self._flusher.start()  # the zeros over its beginning
            return error
        reason = StoreUnavailable(f"{error}; check the disk, then start the broker again")
        self.stop(reason)
        self._safety.taken_back(self._log.written, reason)
        return reason

    # ---- sync

    def _flush(self) -> None:
        self._flush_timer = None
        self._flusher.start()

    def _sync_ended(self, error: OSError | StoreError | None) -> None:
        """After every sync: start the next, and say what is durable now."""
        if error is not None:
            self._sync_failed(error)
            return
        position = self._log.flushed
        if self._sync_first:
            self._flusher.start()
            self._safety.stored_here(position)
        elif self._flush_timer is None and self._log.dirty:
            self._flush_timer = self._clock.call_later(self._config.flush_interval_commit_log / 1000, self._flush)
        self._safety.synced(position)
        try:
            self._mark_file.note_flushed(position)
        except StoreError as failure:
            log.warning("the durable position could not be noted; recovery would read more: %s", failure)

    def _sync_failed(self, error: OSError | StoreError) -> None:
        """Final: the kernel may have dropped the pages, so that a later sync would succeed and mean nothing."""
        reason = StoreUnavailable(
            f"a sync of the log failed ({error}); what was written since the previous sync may be lost, so the store "
            "accepts no more writes. Check the disk, then start the broker again"
        )
        log.critical("%s", reason)
        self.stop(reason)
        self._log.forget_appended()
        self._safety.taken_back(self._log.flushed if self._sync_first else self._log.written, reason)
        self._safety.sync_failed(self._log.flushed, reason)

    def sync_everything(self, done: Done) -> None:
        """Write and sync everything appended so far, whatever the mode, then call ``done``."""
        self.write_out()
        self._safety.when_synced(done)
        if self.final is None:
            self._flusher.start()

    def cancel_timer(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None


def _give_back(queues: list[ConsumeQueue], offsets: list[int]) -> None:
    for queue, offset in zip(queues, offsets, strict=True):
        queue.next_offset = offset
