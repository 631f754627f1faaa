"""Makes a store directory of a backup, for a broker that starts on it.

While it is written, ``gantry/restoring`` lies in it, and a broker does not start. What is written: the log, byte for
byte; the tables; the last entries of queues of which the log has no record any more; and where the log ends. A broker
of any kind builds everything else from the log. There is no file ``abort``: nothing is torn, and Apache's 4.9, which
reads the log in its recovery then, gives delayed messages a wrong time there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from gantrymq.backup.log_walk import QueueEnds
from gantrymq.backup.manifest import LogPart, Manifest, QueueEnd, SparseFile, Stored
from gantrymq.backup.progress import Progress, silent
from gantrymq.backup.reading import backups_in, check_order, check_walk, read_part, walk_of
from gantrymq.backup.rules import Choice, choose
from gantrymq.backup.tables import CONFIG, DELETED, NAMED, USERS, deleted_before, deleted_topics, joined, lowered
from gantrymq.backup.target import Target
from gantrymq.broker.delivery.timer import CHECK_FILE, TIMER_LOG
from gantrymq.broker.registries.registries import OFFSETS_FILE
from gantrymq.broker.replication.promotion import MARK as LOG_OF_ANOTHER
from gantrymq.errors import BackupDamaged, BackupRefused, DiskFull
from gantrymq.runtime.disk import Disk, write_durably
from gantrymq.store.files.checkpoint import MarkFile
from gantrymq.store.files.segment import OpenFiles, segment_name
from gantrymq.store.files.segmented_file import SegmentedFile
from gantrymq.store.layout import Layout
from gantrymq.store.log.records import has_queue_entry
from gantrymq.store.queues.consume_queue import BLANK, ENTRY, ENTRY_BYTES
from gantrymq.store.queues.multi_dispatch import NUMBER, further_places
from gantrymq.store.timer_log import TimerCheckFile


@dataclass(frozen=True, slots=True)
class Restored:
    """What was made."""

    log: Stored
    tables: Stored
    end: int
    """Log offset behind the last record."""
    records: int
    last_ms: int
    """Store time of the last record; 0 when there is none."""
    lowered: int
    """Positions of consumers that lay behind the end of their queues and do not any more."""


@dataclass(slots=True)
class Restoring:
    """``restore`` once."""

    disk: Disk
    layout: Layout
    target: Target
    progress: Progress = silent
    records: int = 0
    last_ms: int = 0

    def restore(self, at_ms: int | None = None, backup_id: str | None = None) -> Restored:
        """``at_ms``: the log ends before the first record that was stored later. ``backup_id``: take this backup as it
        is, and not the newest.

        Raises BackupRefused, BackupDamaged, StoreLocked, or StoreError of the store or of the target; then the
        directory is as empty as before.
        """
        choice = self._choice(at_ms, backup_id)
        check_order(choice.log)
        check_empty(self.disk, self.layout)
        with self._marked():
            end, changed = self._write(choice)
        return Restored(choice.log, choice.tables, end, self.records, self.last_ms, changed)

    def _choice(self, at_ms: int | None, backup_id: str | None) -> Choice:
        found = backups_in(self.target)
        if found.damaged and backup_id is None:  # it may be the one that is wanted
            raise BackupDamaged(f"{found.damaged[0]}. Name a whole backup with --backup")
        whole = found.whole
        if backup_id is not None:
            whole = [one for one in whole if one.id == backup_id]
            if not whole:
                raise BackupRefused(f"there is no backup {backup_id} in {self.target.place}")
        return choose(whole, at_ms)

    @contextlib.contextmanager
    def _marked(self) -> Iterator[None]:
        """The directory is locked and marked; empty again when it fails."""
        disk, layout = self.disk, self.layout
        disk.make_dirs(layout.root)
        lock = disk.lock(layout.lock)
        written = False
        try:
            try:
                clear(disk, layout)
                disk.make_dirs(os.path.dirname(layout.restoring))
                disk.open(layout.restoring, create=True).close()
                disk.sync_dir(os.path.dirname(layout.restoring))
                yield
                disk.sync_dir(layout.root)
                written = True
                disk.remove(layout.restoring)
            except BaseException:
                if not written or disk.exists(layout.restoring):
                    self._undo()
                raise
            disk.sync_dir(os.path.dirname(layout.restoring))
        finally:
            lock.release()

    def _undo(self) -> None:
        """The mark goes last: until then no broker starts here."""
        disk, layout = self.disk, self.layout
        clear(disk, layout)
        disk.remove(layout.restoring)
        _remove_empty(disk, os.path.dirname(layout.restoring))
        disk.remove(layout.lock)

    def _write(self, choice: Choice) -> tuple[int, int]:
        """Everything; log offset of the end, and how many positions were lowered."""
        manifest = choice.log.manifest
        self._check_room(manifest)
        end = self._end(choice)
        tables = self._tables(choice, end)
        ends = QueueEnds(deleted_topics(tables.get(DELETED)))
        self._write_log(manifest, end, ends)
        idle = [one for one in self._idle_queues(manifest) if (one.topic, one.queue_id) not in ends.ends]
        ends.ends.update({(one.topic, one.queue_id): one.end for one in idle})
        changed = 0
        if OFFSETS_FILE in tables:
            tables[OFFSETS_FILE], changed = lowered(tables[OFFSETS_FILE], ends.ends)
        for path, data in tables.items():
            self._put(path, data)
        for file in choice.tables.manifest.timer_log:
            self._put_chunks(file)
        self._reset_timer()
        for one in idle:
            self._put_queue(manifest.queue_file_bytes, one)
        return end, changed

    def _end(self, choice: Choice) -> int:
        """Where the log ends."""
        log, at_ms = choice.log.manifest.log, choice.at_ms
        if at_ms is None:
            return log.end
        for part in log.parts:
            if part.last_ms > at_ms:
                walk = walk_of(choice.log.manifest, part, read_part(self.target, part))
                for place, parsed in walk:
                    if parsed[5] > at_ms:
                        return place
                check_walk(part, walk)
        return log.end

    def _tables(self, choice: Choice, end: int) -> dict[str, bytes]:
        """Path to content."""
        tables = self._read_tables(choice.tables)
        if choice.is_cut:
            newer = self._read_tables(choice.log)
            for path, data in newer.items():
                if path in NAMED:
                    tables[path] = joined(path, tables[path], data) if path in tables else data
            deleted = deleted_before(
                end, deleted_topics(tables.pop(DELETED, None)), deleted_topics(newer.get(DELETED))
            )  # fmt: skip
            if deleted:
                tables[DELETED] = msgspec.json.encode(deleted)
            # A topic may have been made and deleted between both backups: the broker makes it again for its messages.
            tables.setdefault(LOG_OF_ANOTHER, b"")
        return tables

    def _read_tables(self, stored: Stored) -> dict[str, bytes]:
        return {table.path: read_part(self.target, table) for table in stored.manifest.tables}

    def _idle_queues(self, manifest: Manifest) -> list[QueueEnd]:
        """Queues whose first records are no longer in the log."""
        if manifest.queues is None:
            return []
        return msgspec.json.decode(read_part(self.target, manifest.queues), type=list[QueueEnd])

    def _check_room(self, manifest: Manifest) -> None:
        room = self.disk.usage(self.layout.log).free
        if room < manifest.size:
            raise DiskFull(
                f"the backup has {manifest.size} bytes, and the file system of {self.layout.log} has room for {room}; "
                "free space there, or choose another directory"
            )

    def _write_log(self, manifest: Manifest, end: int, ends: QueueEnds) -> None:
        log = manifest.log
        if not log.file_bytes or (not log.start and not end):
            return
        open_files = OpenFiles(self.disk)
        files = SegmentedFile(open_files, self.layout.log, log.file_bytes, [], durable=True)
        try:
            files.begin(log.start)
            for part in log.parts:
                if part.begin < end:
                    data = read_part(self.target, part)
                    self._check(manifest, part, data, end, ends)
                    files.write(part.begin, data[: end - part.begin])
                    self.progress(min(part.end, end) - log.start, end - log.start)
            for segment in files.segments:
                segment.file.sync()
            files.sync_directory()
        finally:
            open_files.close()
        # Without it a start would take damage, as the broker had it, for the torn end of the log.
        mark = MarkFile(self.disk, self.layout.mark)
        mark.keep(end)
        mark.close()

    def _check(self, manifest: Manifest, part: LogPart, data: bytes, end: int, ends: QueueEnds) -> None:
        """Check each record, and count those before ``end``."""
        walk = walk_of(manifest, part, data)
        for place, (_size, topic, queue_id, queue_offset, sys_flag, stored_ms, text) in walk:
            if place >= end:
                continue
            self.records += 1
            self.last_ms = stored_ms
            if has_queue_entry(sys_flag):
                ends.saw(place, topic, queue_id, queue_offset)
                for name, number in further_places(text):
                    ends.saw(place, name, NUMBER, number)
        check_walk(part, walk)

    def _put(self, path: str, data: bytes) -> None:
        where = self.layout.path(path)
        self.disk.make_dirs(os.path.dirname(where))
        write_durably(self.disk, where, data, private=path.startswith(USERS))

    def _put_chunks(self, sparse: SparseFile) -> None:
        where = self.layout.path(sparse.path)
        self.disk.make_dirs(os.path.dirname(where))
        file = self.disk.open(where, create=True)
        try:
            file.truncate(sparse.size)
            at = 0
            for chunk in sparse.chunks:
                file.write(read_part(self.target, chunk), at)
                at += chunk.size
            file.sync()
        finally:
            file.close()
        self.disk.sync_dir(os.path.dirname(where))

    def _reset_timer(self) -> None:
        """``timercheck`` says of no unit of the timer log that it is in ``timerwheel``, which Apache's broker makes
        anew then."""
        if self.disk.exists(self.layout.path(CHECK_FILE)):
            check = TimerCheckFile(self.disk, self.layout.path(CHECK_FILE))
            check.write(check.read())
            check.file.sync()
            check.file.close()

    def _put_queue(self, file_bytes: int, one: QueueEnd) -> None:
        """A file of a queue with its last entry, and blank ones before it: the queue goes on behind it."""
        last = (one.end - 1) * ENTRY_BYTES
        base = last // file_bytes * file_bytes
        where = self.layout.path(f"consumequeue/{one.topic}/{one.queue_id}/{segment_name(base)}")
        self.disk.make_dirs(os.path.dirname(where))
        file = self.disk.open(where, create=True)
        try:
            file.truncate(file_bytes)
            entry = ENTRY.pack(one.log_offset, one.size, one.tags_code)
            file.write(BLANK * ((last - base) // ENTRY_BYTES) + entry, 0)
            file.sync()
        finally:
            file.close()
        self.disk.sync_dir(os.path.dirname(where))


def check_empty(disk: Disk, layout: Layout) -> None:
    """Whether a store can be written there: nothing is there, or what an earlier restore left that did not end. Raises
    BackupRefused."""
    if disk.exists(layout.restoring):
        return
    for place in dict.fromkeys((layout.root, layout.log)):
        if disk.exists(place) and not disk.is_dir(place):
            raise BackupRefused(f"{place} is a file; name a directory that is empty, or does not exist")
        names = [name for name in disk.list(place) if name != os.path.basename(layout.lock)]
        if names:
            raise BackupRefused(
                f"{place} is not empty: it has {names[0]}. Move what is in it away, or name another directory"
            )


def clear(disk: Disk, layout: Layout) -> None:
    """Remove what a restore writes, but for its mark."""
    folders = (layout.path(name) for name in (CONFIG, TIMER_LOG))
    for path in (layout.log, layout.queues, *folders, os.path.dirname(layout.restoring)):
        _remove_tree(disk, path, layout.restoring)


def _remove_tree(disk: Disk, path: str, kept: str) -> None:
    if path == kept:
        return
    if not disk.is_dir(path):
        disk.remove(path)
        return
    for name in disk.list(path):
        _remove_tree(disk, os.path.join(path, name), kept)
    _remove_empty(disk, path)


def _remove_empty(disk: Disk, path: str) -> None:
    if not disk.list(path):
        with contextlib.suppress(OSError):  # where a file system is mounted
            disk.remove_dir(path)
