"""The interface of the store: open, append, wait, read, close.

All calls belong to the event loop. Nothing blocks except opening, and making the next file when a file of the log is
full.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence

from gantrymq.errors import StoreError, StoreUnavailable
from gantrymq.message.lite_topics import QUEUE_PREFIX
from gantrymq.message.queues import LogOffset, QueueOffset
from gantrymq.observability.metrics import Histogram
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk, Lock
from gantrymq.runtime.tasks import with_end
from gantrymq.store.config import StoreConfig
from gantrymq.store.deletion import deletable_end, delete_before
from gantrymq.store.derived_writer import DerivedWriter
from gantrymq.store.dispatch import Arrival, Dispatch
from gantrymq.store.files.checkpoint import ALONE, Checkpoint, MarkFile, read_checkpoint
from gantrymq.store.files.segment import OpenFiles
from gantrymq.store.index.index import Index
from gantrymq.store.layout import Found, Layout, inspect
from gantrymq.store.linked_records import LinkedRecords
from gantrymq.store.log.appender import Appender
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.conditions import Condition
from gantrymq.store.log.flush import Done
from gantrymq.store.log.raw_appender import RawAppender
from gantrymq.store.log.records import is_boundary
from gantrymq.store.log.safety import LogSafety
from gantrymq.store.log.writer import LogWriter
from gantrymq.store.lookup import Lookup
from gantrymq.store.queues.deleted import DeletedTopics
from gantrymq.store.queues.queue_table import QueueTable
from gantrymq.store.reading import QueueReader, Wants
from gantrymq.store.recovery.quarantine import Quarantine
from gantrymq.store.recovery.recovery import NO_LIMIT, Recovered, Recovery
from gantrymq.store.reserve import Reserve, ReservedDisk
from gantrymq.store.room import Room, base_of
from gantrymq.store.space import Space
from gantrymq.store.values import Boundary, GetResult, NewRecord, Placement

log = logging.getLogger("gantrymq.store")


class MessageStore:
    """See ``open``. Positions: ``flushed <= written <= appended``. ``safety`` says when what was appended counts."""

    def __init__(self, config: StoreConfig, disk: Disk, clock: Clock, store_host: bytes, lock: Lock) -> None:
        self.config = config
        self._disk = disk
        self._clock = clock
        self._store_host = store_host
        self._lock = lock
        self._layout = Layout(config.root, config.log_directory)
        self.space = Space(disk, self._layout)
        self.file_disk = ReservedDisk(disk)
        """For small files that must be written on a full disk, too; not for what is derived from the log."""
        self.room = self._make_room(disk)
        """Who may still write when the disk gets full."""
        self._log_files = OpenFiles(disk)
        self._queue_files = OpenFiles(disk)
        self._closed = False
        self.deleting: set[str] = set()
        """Topics whose queues are being removed; nothing may be appended to them."""
        self._earliest = (-1, -1)
        """Start of the log and store time of its first record."""

    # ---- opening

    def _make_room(self, disk: Disk) -> Room:
        base = base_of(self.config.disk_space_reserve, self.space.of_queues())
        reserve = Reserve(disk, self._layout.reserve, base)
        room = Room(self.space, self._clock, self.config.disk_space_warning_ratio, reserve)
        self.file_disk.make_room = room.file_failed
        return room

    @classmethod
    def open(
        cls,
        config: StoreConfig,
        disk: Disk,
        clock: Clock,
        store_host: bytes,
        *,
        conditions: Sequence[Condition] = (),
        waits: bool = False,
    ) -> MessageStore:
        """Lock, look, recover. ``store_host``: packed address that goes into records and message ids. ``conditions``:
        see ``LogSafety``. ``waits``: there will be conditions at once, see ``require``; what others had not confirmed
        when this store was used last waits for them.

        Raises StoreLocked, StoreFormatUnknown (nothing was changed), DiskFull.
        """
        layout = Layout(config.root, config.log_directory)
        # Without a lock file nobody can be running, and a directory that is no store must not get one.
        if not disk.exists(layout.lock):
            inspect(disk, config)
            disk.make_dirs(layout.root)
        lock = disk.lock(layout.lock)
        try:
            store = cls(config, disk, clock, store_host, lock)
            store._open(inspect(disk, config), conditions, waits)
        except BaseException:
            lock.release()
            raise
        return store

    def _open(self, found: Found, conditions: Sequence[Condition], waits: bool) -> None:
        config, disk, layout = self.config, self._disk, self._layout
        clean = not disk.exists(layout.abort)
        _remove_empty_tail(disk, layout, found)
        self._log = CommitLog(self._log_files, layout.log, config.mapped_file_size_commit_log, found.log_bases)
        self._queues = QueueTable(self._queue_files, layout.queues, config.mapped_file_size_consume_queue)
        for (topic, queue_id), bases in found.queues.items():
            self._queues.make(topic, queue_id, bases)
        self._checkpoint_before = read_checkpoint(disk, layout.checkpoint)
        self.file_disk.open(layout.abort, create=True).close()
        disk.sync_dir(layout.root)
        # Whoever made the directory may have been killed before its name was durable. The parent may not be readable.
        with contextlib.suppress(StoreError, OSError):
            disk.sync_dir(os.path.dirname(layout.root))
        self._had_mark_file = disk.exists(layout.mark)
        self._mark_file = MarkFile(self.file_disk, layout.mark)
        flushed, mark = self._mark_file.read()
        files = self._log.files
        checkpoint = read_checkpoint(disk, layout.checkpoint)
        self._deleted = DeletedTopics(self.file_disk, layout.deleted)
        self._finish_deletions()
        confirmed = self._mark_file.confirmed if waits and self._mark_file.confirmed != ALONE else NO_LIMIT
        recovery = Recovery(
            config, files, self._queues, clean, checkpoint, mark, min(flushed, files.end), self._deleted.positions,
            confirmed,
        )  # fmt: skip
        self.recovered: Recovered = recovery.run()
        if self._mark_file.kept < self.recovered.end or not clean:
            # All of it is durable now, and damage in it is no torn tail: at no start to come, also after a power cut.
            with contextlib.suppress(StoreError, OSError):
                self._mark_file.keep(self.recovered.end)
        self._deleted.fit(files.start, self.recovered.end)
        checkpoint = checkpoint or Checkpoint()
        self._log.start_at(self.recovered.end)
        self._quarantine = Quarantine(self._log, self._queues, self.recovered.quarantined)
        self._reader = QueueReader(self._log, self.recovered.end, self._quarantine, disk.cache_bytes)
        self._index = self._open_index(found.index_names, recovery, checkpoint) if config.message_index_enable else None
        self._go_on(self.recovered, checkpoint, conditions)

    def _finish_deletions(self) -> None:
        """Remove queues that a crash left while their topic was being deleted: all their records are older."""
        for topic, position in self._deleted.positions.items():
            entries = []
            for (known, _), queue in self._queues.queues.items():
                if known == topic:
                    queue.load(NO_LIMIT)
                    entries.append(queue.last_entry())
            if entries and all(entry is None or entry.log_offset < position for entry in entries):
                self._queues.remove_topic(topic)

    def _open_index(self, names: list[str], recovery: Recovery, checkpoint: Checkpoint) -> Index:
        config = self.config
        index = Index(
            self._disk, self._clock, self._log, self._layout.index, config.max_hash_slot_num, config.max_index_num,
            self._quarantine,
        )  # fmt: skip
        known: int | None = recovery.mark.index_position if recovery.mark is not None else 0
        if not self._had_mark_file:
            known = None
        index.load(names, self.recovered.visible, known, checkpoint.index_timestamp, clean=recovery.clean)
        return index

    def _go_on(self, recovered: Recovered, checkpoint: Checkpoint, conditions: Sequence[Condition]) -> None:
        """Start everything that follows the log from the end that recovery found."""
        last_timestamp = max(recovered.last_store_timestamp, checkpoint.log_timestamp)
        note = self._index.note if self._index is not None else None
        self._dispatch = Dispatch(recovered.visible, recovered.last_record, last_timestamp, note)
        self.arrivals: list[Arrival] = self._dispatch.arrivals
        self.arrivals_of = self._dispatch.arrivals_of
        self.listeners = self._dispatch.listeners
        self.linked = LinkedRecords(self._log, self._dispatch, self._quarantine)
        """May look ahead: see there."""
        lookup = Lookup(self._log, self._queues, self._quarantine, self._dispatch, self._index, self.linked)
        self.read, self.scan, self.query, self.entry = lookup.read, lookup.scan, lookup.query, lookup.entry
        self.copies, self.finals = lookup.copies, lookup.finals
        self._derived = DerivedWriter(
            self.file_disk, self._clock, self._layout, self._log, self._queues, self._dispatch, self._index,
            self._mark_file, checkpoint,
        )  # fmt: skip
        self._derived.after_recovery(recovered)
        self.safety = LogSafety(
            self._log, self._dispatch, self._clock, conditions, self.config.flush_limit_ms, recovered.held
        )
        self._writer = LogWriter(
            self.config, self._disk, self.room, self._clock, self._log, self.safety, self._mark_file,
            self._derived.arm,
        )  # fmt: skip
        self.appender = Appender(
            self._writer, self._clock, self._log, self._queues, self._dispatch, self._store_host, last_timestamp
        )
        """For the ways of every send and every commit, without a call in between."""
        self._raw = RawAppender(
            self._writer, self._log, self._queues, self._dispatch, self.appender, self._deleted, self.config.delays_ms
        )
        if recovered.held is not None:
            self._raw.hold(recovered.held, recovered.end)
        self.truncating: list[Callable[[int], None]] = []
        """Called with the position before the log is cut there, to forget what is derived from the rest of it."""
        self.room.look()

    # ---- positions

    @property
    def appended(self) -> int:
        return self._log.appended

    @property
    def written(self) -> int:
        return self._log.written

    @property
    def flushed(self) -> int:
        return self._log.flushed

    @property
    def stored(self) -> int:
        """Everything before this log offset is safe on the disk here: synced with SYNC_FLUSH, else written."""
        return self.safety.stored

    # ---- what others confirm

    def require(self, conditions: Sequence[Condition]) -> None:
        """``LogSafety.require``, which a start knows of. Raises StoreError or OSError."""
        self.safety.require(conditions)
        self._mark_file.keep_confirmed(self.safety.position if conditions else ALONE)

    @property
    def waits(self) -> bool:
        """Whether others must confirm the log, or had to when this store was used last."""
        return self._mark_file.confirmed != ALONE

    def note_confirmed(self) -> None:
        """Note how far others have confirmed the log. To be called now and then: a crash leaves the last note, and what
        lies behind it waits once more. Raises DiskFull."""
        if self.waits:
            self._mark_file.note_confirmed(self.safety.position)

    def record_before(self, position: int) -> tuple[int, int]:
        """Begin and end (log offsets) of the newest record that begins before ``position`` and that a queue knows, or
        will know; twice where the log begins when no queue knows one."""
        newest = self._newest_before(position)[0]
        waiting = self._dispatch.newest_before(position)
        if waiting is not None and newest >= 0:
            return waiting
        found = self.read(LogOffset(newest)) if newest >= 0 else None
        return (self._log.start, self._log.start) if found is None else (newest, newest + found.size)

    def read_raw(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes of the log, as they lie there; none where nothing is written."""
        return self._log.read(position, size) if position >= self._log.start else b""

    def end_of_file(self, position: int) -> int:
        """Where the file of the log ends that holds a position."""
        return self._log.end_of_file(position)

    @property
    def min_log_offset(self) -> LogOffset:
        """Of the oldest byte that still exists."""
        return LogOffset(self._log.start)

    @property
    def max_log_offset(self) -> LogOffset:
        """Behind the last visible record."""
        return LogOffset(self._dispatch.position)

    @property
    def log_path(self) -> str:
        """The directory of the log."""
        return self._layout.log

    def path(self, name: str) -> str:
        """Of a file of the store directory, like ``config/topics.json``."""
        return self._layout.path(name)

    # ---- appending

    def append(self, records: Sequence[NewRecord]) -> list[Placement]:
        """Put records one after the other into the log's buffer, which is written at the end of the loop's turn.

        They go into one file and into one write. They count as stored when ``safety`` says so. Raises
        StoreUnavailable (DiskFull: try again later) or MessageIllegal; then nothing was appended. Whether the disk
        has room for records of this kind is asked before: ``room``.
        """
        return self.appender.append(records)

    @property
    def refusal(self) -> StoreUnavailable | None:
        """The reason why messages are refused at the moment; None when they are accepted."""
        return self._writer.closed or self.room.closed

    @property
    def stopped(self) -> StoreUnavailable | None:
        """The reason why nothing will ever be written again; None while the disk works."""
        return self._writer.final

    # ---- the log of another store

    def follow(self, reason: str) -> None:
        """From now on the log is that of another store: ``append_raw`` adds to it, and every other append is refused
        with StoreUnavailable and this reason."""
        self._writer.follow(StoreUnavailable(reason))

    @property
    def follows(self) -> bool:
        """Whether the log is that of another store, so that only ``append_raw`` adds to it."""
        return self._writer.follows

    def lead(self) -> None:
        """From now on records are appended here. A record of the other store that has come in part is forgotten."""
        self._raw.forget_rest()
        self._writer.lead()

    @property
    def next_raw(self) -> int:
        """Log offset of the next bytes for ``append_raw``. ``appended`` is where the last whole record ends."""
        return self._raw.next_place

    def forget_rest(self) -> None:
        """Drop the part of a record that has come: ``next_raw`` is ``appended`` again."""
        self._raw.forget_rest()

    def append_raw(self, place: int, data: bytes) -> None:
        """Put bytes of the other store's log to exactly the same place, in pieces that are cut anywhere.

        The whole records among them are checked, and written as those of ``append``; queues and index follow. Raises
        StoreError when they do not belong to ``next_raw``, or the store does not follow another one; CorruptRecord for
        the first record that is broken, behind those before it were taken; DiskFull likewise.
        """
        self._raw.append(place, data)

    async def truncate(self, position: int) -> None:
        """Cut the log at ``position``, where a record begins or the log ends, with all that is derived from the rest.

        The store must follow another one. Whoever waits for what is gone gets a StoreUnavailable, and readers see that
        the queues end earlier. A crash meanwhile leaves a log that ends at ``position`` or behind it, with a record.
        Raises StoreError when nothing was changed, or the disk failed: then the store has to be opened again.
        """
        if not self._writer.follows or self._raw.held:
            raise StoreError("a log is cut only while the store follows another one, and once at a time")
        self._raw.forget_rest()
        self._raw.held = True
        try:
            await self.flush_everything()
            self._check_cut(position)
            await self._derived.finish()
            for listener in self.truncating:
                listener(position)
            await self._cut(position)
        finally:
            self._raw.held = False
            self._derived.go_on()

    def _check_cut(self, position: int) -> None:
        """Raises StoreError unless the log can be cut there."""
        commit_log = self._log
        if not commit_log.start <= position <= commit_log.written:
            raise StoreError(f"the log reaches from {commit_log.start} to {commit_log.written}; not cut at {position}")
        if position == commit_log.written or is_boundary(commit_log.files, position):
            return
        raise StoreError(f"no record begins at {position}; a log is cut between two records")

    async def _cut(self, position: int) -> None:
        visible = min(position, self._dispatch.position)
        last, stored = self._newest_before(visible)
        if self._mark_file.confirmed > position:
            self._mark_file.keep_confirmed(position)
        self._derived.lower(visible, last, stored)
        cut_bytes = self._log.truncate(position)
        self._dispatch.cut(position, last, stored)
        reason = f"the log was cut at {position}, because the log that it follows continues in another way there"
        self.safety.truncated(position, StoreUnavailable(reason))
        self.linked.truncated(position)
        self._quarantine.truncate(position)
        self._deleted.fit(self._log.start, position)
        self._earliest = (-1, -1)
        if self._log.files.segments:
            self._log.files.sync_directory()
        await self._derived.truncate(position)
        await self.flush_everything()
        log.warning("cut the log at offset %d: %d bytes behind it are gone", position, cut_bytes)

    def _newest_before(self, position: int) -> tuple[int, int]:
        """Log offset and store time (ms) of the newest record before ``position`` that a queue knows; (-1, 0): none."""
        newest, stored = -1, 0
        for queue in self._queues.queues.values():
            number = queue.first_at(position) - 1
            entry = queue.entry(number) if number >= queue.start_offset else None
            if entry is not None and self._log.start <= entry.log_offset and entry.log_offset > newest:
                newest, stored = entry.log_offset, self._reader.store_time(queue, number) or 0
        return newest, stored

    # ---- retention

    def delete_expired(self, now_ms: int, hours: float, keep_from: int) -> int:
        """Remove log files last written ``hours`` ago, oldest first and at most ten; how many were removed.

        Nothing at or behind log offset ``keep_from`` is touched, nor the file that is written to. With ``hours`` 0 age
        does not count.
        """
        position = deletable_end(self._disk, self._log, now_ms, hours, keep_from)
        return delete_before(position, self._log, self._queues, self._index)

    def drop_queue_files(self) -> None:
        """Remove the files of queues whose records have all been deleted."""
        for queue in self._queues.queues.values():
            queue.drop_before(self._log.start)

    def delete_topic(self, topic: str, done: Done) -> None:
        """Remove the queues of a topic; a topic of that name begins empty then. Its records stay in the log until
        retention removes them, and nothing leads to them.

        ``done(None)`` when that is durable, ``done(error)`` when it failed. Appends to the topic must have ended.
        """

        self.deleting.add(topic)

        def visible(error: StoreError | None) -> None:
            self.deleting.discard(topic)
            try:
                if error is None and any(known == topic for known, _ in self._queues.queues):
                    self._deleted.add(topic, self._log.written)
                    self._queues.remove_topic(topic)
            except StoreError as failure:
                error = failure
            except OSError as failure:
                error = StoreError(f"the queues of {topic} could not be removed: {failure}")
            done(error)

        # Not before its last record is visible: a record that became so later would go into a queue that is gone.
        self.safety.when_safe(self._log.appended, visible)

    # ---- closing

    async def flush_everything(self) -> None:
        """Return when everything appended so far is durable, in either mode. Raises StoreUnavailable."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[StoreError | None] = loop.create_future()
        self._writer.sync_everything(lambda error: None if ended.done() else ended.set_result(error))
        error = await ended
        if error is not None:
            raise error

    async def close(self) -> None:
        """Make everything durable, leave the directory as after an orderly shutdown, and let others have it.

        After a failed sync the abort file stays, so that the next start recovers. Harmless when called again.
        """
        if self._closed:
            return
        self._closed = True
        await with_end(self._close_if_possible(), self._close_files)

    async def _close_if_possible(self) -> None:
        try:
            await self._close_in_order()
        except (StoreError, OSError) as error:
            log.error("the store was not shut down in an orderly way, its next start will recover: %s", error)

    async def _close_files(self) -> None:
        self._writer.stop(StoreUnavailable("the store is closed; open it again"))
        self.safety.close()
        self._derived.cancel()
        await self._syncs_ended()
        self._disk_files_closed()

    async def _close_in_order(self) -> None:
        if self._writer.final is not None:
            raise self._writer.final
        await self.flush_everything()
        self._writer.stop(StoreUnavailable("the store is being closed"))
        if self.safety.position < self._log.written:
            raise StoreError("its last records are not confirmed, and their queues were not built")
        self._writer.cancel_timer()
        await self._derived.finish()
        self._disk.remove(self._layout.abort)
        self._disk.sync_dir(self._layout.root)

    async def _syncs_ended(self) -> None:
        """Return when no background sync can be using a file any more; they are executed in order."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._disk.sync_later([], lambda _error: None if ended.done() else ended.set_result(None))
        await ended

    def _disk_files_closed(self) -> None:
        for files in (self._log_files, self._queue_files):
            files.close()
        if self._index is not None:
            self._index.close()
        self._mark_file.close()
        self._lock.release()

    # ---- reading

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None = None,
        wants: Wants | None = None,
        terms: int = 1,
    ) -> GetResult:
        """Visible records of a queue from ``offset`` on: at most ``max_count`` and ``max_bytes``, but at least one.

        ``tag_codes``: only records whose tags code is among them; None for all. ``wants``: only records it says yes to;
        it is given the text of their properties, in order, until there are enough. ``terms``: how much work it is; the
        more, the fewer records are looked at, and the caller goes on where the result says.
        """
        queue = self._queues.get((topic, queue_id))
        return self._reader.get(queue, offset, max_count, max_bytes, tag_codes, wants, terms)

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(first, behind the last) visible queue offset; (0, 0) for a queue that never got a message."""
        queue = self._queues.get((topic, queue_id))
        return (0, 0) if queue is None else (queue.min_offset(self._log.start), queue.max_offset)

    def queue_end(self, topic: str, queue_id: int, position: int) -> int:
        """The queue offset behind the visible records that lie before log offset ``position``."""
        queue = self._queues.get((topic, queue_id))
        return 0 if queue is None else queue.first_at(position)

    def topics(self) -> set[str]:
        """Topics that have queues."""
        return {topic for topic, _ in self._queues.queues}

    def has_queue(self, topic: str, queue_id: int = 0) -> bool:
        """Whether there is such a queue."""
        return self._queues.get((topic, queue_id)) is not None

    def next_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """Queue offset that the next append to the queue gets."""
        queue = self._queues.get((topic, queue_id))
        return QueueOffset(0 if queue is None else queue.next_offset)

    def queues(self) -> list[tuple[str, int]]:
        """(topic, queue id) of every queue that ever got a message, sorted."""
        return sorted(key for key, queue in self._queues.queues.items() if queue.max_offset > 0)

    def arrived(self) -> dict[tuple[str, int], Histogram]:
        """Topic and type (``message_types``) to the sizes of the records that became visible since the store was
        opened."""
        found: dict[tuple[str, int], Histogram] = {}
        for (topic, _), queue in self._queues.queues.items():
            if topic.startswith(QUEUE_PREFIX):
                continue  # its records count in the queues of their topics
            for kind, sizes in enumerate(queue.arrived):
                if sizes is not None:
                    found.setdefault((topic, kind), Histogram(sizes.bounds)).add(sizes)
        return found

    def earliest_store_time(self) -> int:
        """Store timestamp (ms) of the oldest record that still exists; -1 when there is none."""
        start = self._log.start
        if self._earliest[0] != start or self._earliest[1] < 0:
            first = next(self.scan(start), None)
            self._earliest = (start, -1 if first is None else first.store_timestamp)
        return self._earliest[1]

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> QueueOffset:
        """The queue offset a store time names; 0 for a queue that never got a message."""
        queue = self._queues.get((topic, queue_id))
        return QueueOffset(0 if queue is None else self._reader.offset_by_time(queue, timestamp_ms, boundary))

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Store timestamp (ms) of a message; None when it is not there."""
        queue = self._queues.get((topic, queue_id))
        return None if queue is None or queue_offset < 0 else self._reader.store_time(queue, queue_offset)


def _remove_empty_tail(disk: Disk, layout: Layout, found: Found) -> None:
    """Remove the empty files a crash left of files that were just being made."""
    directories = [layout.log] + [layout.path(f"consumequeue/{topic}/{queue}") for topic, queue in found.queues]
    for directory in directories:
        for name in disk.list(directory)[-1:]:
            path = os.path.join(directory, name)
            if not disk.is_dir(path) and disk.size(path) == 0:
                disk.remove(path)
