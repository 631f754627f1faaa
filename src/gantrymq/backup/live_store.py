"""Reads a store directory whose broker may be running. Nothing in it is changed.

The log only grows, files of tables are replaced as a whole, and old log files may go at any time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gantrymq.backup.log_walk import Range, RecordWalk
from gantrymq.backup.manifest import LogPart, QueueEnd, sha256
from gantrymq.backup.tables import FOLDERS, SINGLE, is_whole, names_in
from gantrymq.broker.delivery.timer import TIMER_LOG
from gantrymq.errors import BackupRefused, StoreFormatUnknown
from gantrymq.message.queues import LogOffset
from gantrymq.message.sizes import LARGEST_RECORD_BYTES
from gantrymq.runtime.disk import Disk, File, read_whole
from gantrymq.store.files.checkpoint import read_mark
from gantrymq.store.files.segment import OpenFiles
from gantrymq.store.files.segmented_file import SegmentedFile, list_segments
from gantrymq.store.layout import Layout
from gantrymq.store.log.records import LogWalk
from gantrymq.store.queues.consume_queue import BLANK_SIZE, ConsumeQueue, Entry
from gantrymq.store.queues.queue_table import list_queues
from gantrymq.store.recovery.record_search import RecordSearch

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Of the timer log."""
_SIZE_KEY: Final = "mappedFileSizeCommitLog"
PART_BYTES = 32 * 1024 * 1024
"""A part of the log, which is held in memory, is not larger, unless it is one record."""


class LogMoved(Exception):
    """The broker deleted files of its log while they were read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the log with its bytes."""

    part: LogPart
    data: bytes
    damaged: tuple[Range, ...]
    """Ranges of damage that begin in it."""


class LiveLog:
    """The commit log."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        """Raises StoreFormatUnknown when the files are none of a log, or LogMoved."""
        self._disk = disk
        self._layout = layout
        self.file_bytes = _size_of_first(disk, layout.log)
        self._open = OpenFiles(disk)
        try:
            bases = list_segments(disk, layout.log, self.file_bytes, _SIZE_KEY) if self.file_bytes else []
        except FileNotFoundError as error:
            raise LogMoved from error
        self._files = SegmentedFile(self._open, layout.log, self.file_bytes, bases)
        self._search = RecordSearch(self._files, self.file_bytes)

    @property
    def start(self) -> int:
        return self._files.start

    def close(self) -> None:
        self._open.close()

    def end(self) -> int:
        """Log offset behind the last whole record at this moment: everything that was acknowledged lies before it."""
        try:
            return self._end()
        except FileNotFoundError as error:
            raise LogMoved from error

    def _end(self) -> int:
        position = self._durable_end()
        known = position > 0
        if not known:
            position = next(
                (one.base for one in reversed(self._files.segments) if one.next_nonzero(one.base) is not None),
                self.start,
            )
        while True:
            walk = LogWalk(self._files, position, self._files.end)
            for _ in walk:
                pass
            following = None if known or walk.bad is None else self._search.next_behind(walk.position)
            if following is None:
                return walk.position
            position = following  # damage in a log of which nobody noted what is durable, as in Apache's

    def _durable_end(self) -> int:
        """What the broker noted; 0 when that is nothing, or is not of this log."""
        if not self._disk.exists(self._layout.mark):
            return 0
        flushed, _ = read_mark(read_whole(self._disk, self._layout.mark))
        return flushed if self.start <= flushed <= self._files.end else 0

    def read(self, begin: int, end: int) -> bytes:
        """Raises LogMoved."""
        end = min(end, self._files.end)
        try:
            data = self._files.read(begin, end - begin)
        except FileNotFoundError as error:
            raise LogMoved from error
        if len(data) != end - begin:
            raise LogMoved
        return data

    def pieces(self, begin: int, end: int) -> Iterator[Piece]:
        """The range of the log in parts: each one lies in one file, and ends behind a record or with its file. All
        records in it were checked. The last part may end before ``end``, when there are only zeros behind it."""
        gaps: list[Range] = []
        while begin < end:
            stop = min(end, begin - begin % self.file_bytes + self.file_bytes)
            data = self.read(begin, min(stop, begin + max(PART_BYTES, self._size_at(begin))))
            known = len(gaps)
            walk = RecordWalk(data, begin, self.file_bytes, gaps)
            while walk.to_the_end().bad is not None and not self._is_cut_off(walk, end):
                following = self._behind(walk.position, end)
                if following == walk.position:
                    end = following
                    break
                gaps.append((walk.position, following))
                walk.bad = None
            behind = walk.position
            if behind == begin:
                return
            data = data[: behind - begin]
            part = LogPart(begin, behind, sha256(data), walk.records, walk.first_ms, walk.last_ms)
            yield Piece(part, data, tuple(gaps[known:]))
            begin = behind

    def _size_at(self, position: int) -> int:
        """Of the record there; 0 when that cannot be its size."""
        size = int.from_bytes(self.read(position, position + 4), "big")
        return size if size <= LARGEST_RECORD_BYTES else 0

    def _is_cut_off(self, walk: RecordWalk, end: int) -> bool:
        """Whether the record at the end of the data goes on in the next part."""
        if walk.position == walk.base or walk.end >= min(
            end, walk.base - walk.base % self.file_bytes + self.file_bytes
        ):
            return False
        at = walk.position - walk.base
        size = int.from_bytes(walk.data[at : at + 4], "big") if at + 8 <= len(walk.data) else 8
        return walk.position + size > walk.end

    def _behind(self, bad: int, end: int) -> int:
        """Where intact records go on behind a bad place, as a start of the broker has it. The place itself: nowhere, as
        there are only zeros, because the log is older than what was noted of it."""
        try:
            following = self._search.next_behind(bad)
        except FileNotFoundError as error:
            raise LogMoved from error
        if following is not None and following <= end:
            return following
        return end if any(self.read(end - 1, end)) else bad


def read_tables(disk: Disk, layout: Layout) -> dict[str, bytes]:
    """Path to content of every table that is there now. Raises BackupRefused when one cannot be used."""
    found = {}
    for folder in FOLDERS:
        listed = [name for name in disk.list(layout.path(folder)) if not disk.is_dir(layout.path(f"{folder}/{name}"))]
        for path in names_in(folder, listed):
            found[path] = _read_table(disk, layout, path)
    for path in SINGLE:
        found[path] = _read(disk, layout.path(path))
    return {path: data for path, data in found.items() if data is not None}


def _read_table(disk: Disk, layout: Layout, path: str) -> bytes | None:
    data = _read(disk, layout.path(path))
    if data is not None and is_whole(path, data):
        return data
    before = _read(disk, layout.path(path + ".bak"))
    if before is not None and is_whole(path, before):
        return before
    if data is None:
        return None
    raise BackupRefused(
        f"{layout.path(path)} cannot be read as JSON: a broker would not start with it. Repair it first"
    )


def _read(disk: Disk, path: str) -> bytes | None:
    try:
        return read_whole(disk, path)
    except FileNotFoundError:
        return None


def timer_log(disk: Disk, layout: Layout) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """Path, size and used bytes, in chunks, of each file of the timer log. Raises LogMoved."""
    for name in disk.list(layout.path(TIMER_LOG)):
        path = f"{TIMER_LOG}/{name}"
        try:
            file = disk.open(layout.path(path))
        except FileNotFoundError as error:
            raise LogMoved from error
        try:
            yield path, file.size(), _used(file)
        finally:
            file.close()


def _used(file: File) -> Iterator[bytes]:
    """The bytes before those that are all zeros."""
    for at in range(0, file.size(), CHUNK_BYTES):
        data = file.read(CHUNK_BYTES, at)
        if not any(data):
            return
        yield data


def queue_ends(disk: Disk, layout: Layout, log_start: int) -> tuple[int, list[QueueEnd]]:
    """Size of a queue's file, and the last entry before ``log_start`` of each queue that has such entries. The log
    cannot say where these queues go on, unless it has a later record of them."""
    queue_bytes = _size_of_any_queue(disk, layout.queues)
    if not queue_bytes:
        return 0, []
    found = []
    open_files = OpenFiles(disk)
    try:
        for (topic, queue_id), bases in sorted(list_queues(disk, layout.queues, queue_bytes).items()):
            place = os.path.join(layout.queues, topic, str(queue_id))
            queue = ConsumeQueue(open_files, place, queue_bytes, topic, queue_id, bases)
            queue.load(log_start)
            if queue.max_offset > queue.start_offset:
                entry = queue.last_entry() or Entry(LogOffset(0), BLANK_SIZE, 0)
                found.append(QueueEnd(topic, queue_id, queue.max_offset, *entry))
    except FileNotFoundError as error:
        raise LogMoved from error  # a topic, or an old file of a queue, was deleted meanwhile
    finally:
        open_files.close()
    return queue_bytes, found


def _size_of_any_queue(disk: Disk, directory: str) -> int:
    for topic in disk.list(directory):
        if not disk.is_dir(os.path.join(directory, topic)):
            continue
        for queue in disk.list(os.path.join(directory, topic)):
            if size := _size_of_first(disk, os.path.join(directory, topic, queue)):
                return size
    return 0


def _size_of_first(disk: Disk, directory: str) -> int:
    """Size of the first file that is not empty; 0 when there is none."""
    for name in disk.list(directory):
        if len(name) == 20 and name.isdigit():
            try:
                size = disk.size(os.path.join(directory, name))
            except FileNotFoundError:
                continue
            if size:
                return size
    return 0


def check_store(disk: Disk, layout: Layout) -> None:
    """Raises StoreFormatUnknown when there is no store here."""
    if not disk.is_dir(layout.log) and not disk.is_dir(layout.path("config")):
        raise StoreFormatUnknown(
            f"{layout.root} is not the directory of a store: it has neither commitlog/ nor config/. Name the "
            "storePathRootDir of the broker"
        )
