"""The log: one append-only sequence of records, with three positions that never overtake each other."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.errors import DiskFull, InvariantViolated, MessageIllegal, StoreError, StoreUnavailable, invariant
from gantrymq.protocol.stored_message import encode_blank
from gantrymq.runtime.disk import File
from gantrymq.store.files.segment import OpenFiles, Segment
from gantrymq.store.files.segmented_file import SegmentedFile
from gantrymq.store.log.records import END_MARK_BYTES


class CommitLog:
    """``flushed <= written <= appended``: durable, in the file, in memory. In bytes from the start of the log."""

    def __init__(self, open_files: OpenFiles, directory: str, segment_size: int, bases: list[int]) -> None:
        self.files = SegmentedFile(open_files, directory, segment_size, bases, durable=True)
        self._open_files = open_files
        self.appended = self.written = self.flushed = self.files.start
        self.limit = 0
        """How far the file of ``appended`` takes records; behind it there is only room for the end mark."""
        self._runs: list[tuple[int, list[bytes]]] = []
        """What is appended but not written: contiguous pieces, each within one file."""
        self._parts: list[bytes] = []
        """The pieces of the last run."""
        self._unsynced: list[Segment] = []
        self._active: list[Segment] = []
        """Files kept open because a sync may be using them."""
        self.make_room: Callable[[int], bool] = lambda _size: False
        """Makes room for a few bytes on a full disk, if that is possible: the name of the next file needs them."""
        self._torn: list[tuple[int, int]] = []
        """Ranges that a failed write left bytes in; zeroed before the next record goes there."""

    def start_at(self, end: int) -> None:
        """Continue at ``end``, which recovery found to be the end of the durable data."""
        invariant(self.files.start <= end <= self.files.end, "the log ends within its files")
        self.appended = self.written = self.flushed = end
        segment = self.files.segment(end)
        self.limit = 0 if segment is None else segment.end - END_MARK_BYTES
        if segment is not None:
            self._activate(segment)

    def begin_at(self, place: int) -> bool:
        """Make a log without files begin at ``place``, where its next file does; False when it has files, or no file
        begins there. Raises DiskFull."""
        if self.files.segments or place <= 0 or place % self.files.segment_size:
            return False
        self.files.begin(place)
        self.start_at(place)
        return True

    def begin_first_file(self) -> None:
        """Make the file of ``appended``, where a log, or its next file, begins. Raises DiskFull."""
        self._zero_torn()
        self._begin_next_file()

    def end_of_file(self, position: int) -> int:
        """Where the file of a position ends, whether it is there or not."""
        return position - position % self.files.segment_size + self.files.segment_size

    def end_file(self, data: bytes) -> None:
        """Fill the rest of the current file with the bytes that another log has there, and begin the next one. Raises
        DiskFull; then nothing has changed."""
        invariant(self.appended + len(data) == self.end_of_file(self.appended), "a file ends where the next one begins")
        self._zero_torn()
        self._begin_next_file(data.rstrip(b"\0"))

    def truncate(self, position: int) -> int:
        """Forget everything from ``position`` on, which is written, and zero it in the files; the number of bytes
        zeroed. No sync may be under way. The caller syncs ``unsynced_files``."""
        invariant(self.appended == self.written, "a log is written out when it is cut")
        invariant(self.files.start <= position <= self.written, "a log is cut where it has bytes")
        zeroed = self.files.zero_from(position)
        kept = self.files.segments
        for segment in [segment for segment in self._active if segment not in kept]:
            self._active.remove(segment)
        self._unsynced = [segment for segment in kept if segment.end > position]
        self._torn, self._runs = [], []
        self.start_at(position)
        return zeroed

    def _activate(self, segment: Segment) -> None:
        if segment not in self._active:
            self._open_files.pin(segment.path)
            self._active.append(segment)

    @property
    def start(self) -> int:
        """Offset of the oldest byte that still exists."""
        return self.files.start

    @property
    def dirty(self) -> bool:
        """Whether something is written that is not durable: records, or zeros over what a failed write left."""
        return self.flushed < self.written or bool(self._unsynced)

    def place(self, size: int) -> int:
        """Where ``size`` bytes go that must not be split over two files; begins the next file when they do not fit.

        Raises DiskFull when that cannot be made (nothing has changed), MessageIllegal when they fit into no file.
        """
        if self.appended + size <= self.limit:
            return self.appended
        if size + END_MARK_BYTES > self.files.segment_size:
            raise MessageIllegal(
                f"a record of {size} bytes does not fit into a log file; raise mappedFileSizeCommitLog "
                f"({self.files.segment_size}) or send less"
            )
        self._zero_torn()
        self._begin_next_file()
        return self.appended

    def _begin_next_file(self, end: bytes = b"") -> None:
        """``end``: what the current file ends with; empty: the mark of its end."""
        current = self.files.segment(self.appended)
        following = self.files.segment(current.end if current else self.appended)
        if following is None:
            following = self._make_file()
        self._activate(following)
        if current is not None:
            self._add_run(self.appended, [end or encode_blank(current.end - self.appended)])
        self.appended = following.base
        self.limit = following.end - END_MARK_BYTES
        self._add_run(following.base, [])

    def _make_file(self) -> Segment:
        try:
            try:
                return self.files.grow()
            except DiskFull:
                if not self.make_room(0):
                    raise
                return self.files.grow()
        except StoreUnavailable:
            raise
        except (StoreError, OSError) as error:
            raise StoreUnavailable(f"the next file of the log cannot be made: {error}") from error

    def _add_run(self, position: int, parts: list[bytes]) -> None:
        self._runs.append((position, parts))
        self._parts = parts

    def add(self, data: bytes) -> None:
        """Append one record at the position ``place`` gave."""
        if not self._runs:
            self._add_run(self.appended, [])
        self._parts.append(data)
        self.appended += len(data)
        if self.appended > self.limit:
            raise InvariantViolated("a record never reaches into the room of the end mark")

    def write_out(self) -> None:
        """Write everything appended: one positional write per file touched.

        Raises DiskFull (or another StoreError of the disk); then nothing of it is in the log, and ``appended`` is back
        at ``written``.
        """
        if not self._runs:
            return
        try:
            self._zero_torn()
            for position, parts in self._runs:
                self._write_run(position, b"".join(parts))
        except BaseException:
            self._take_back()
            raise
        self._runs = []
        invariant(self.written <= self.appended, "written <= appended")
        self.written = self.appended

    def _write_run(self, position: int, data: bytes) -> None:
        if not data:
            return
        segment = self.files.segment(position)
        invariant(segment is not None, "a record is appended to a file that exists")
        if segment is not None:
            if segment not in self._unsynced:
                self._unsynced.append(segment)
            segment.write(position, data)

    def _take_back(self) -> None:
        """After a failed write: drop the appended records and clean the file behind ``written``."""
        self._torn += [(position, position + sum(map(len, parts))) for position, parts in self._runs]
        self._runs = []
        self.start_again()

    def forget_appended(self) -> None:
        """Drop records that are appended and not written."""
        if self._runs:
            self._runs = []
            self.start_again()

    def start_again(self) -> None:
        """Append at ``written`` again."""
        self.appended = self.written
        segment = self.files.segment(self.written)
        self.limit = 0 if segment is None else segment.end - END_MARK_BYTES
        try:
            self._zero_torn()
        except DiskFull:
            return  # tried again before the next record is written

    def _zero_torn(self) -> None:
        while self._torn:
            start, end = self._torn[-1]
            segment = self.files.segment(start)
            if segment is not None and end > start:
                segment.zero(start, end)
            self._torn.pop()

    def unsynced_files(self) -> list[File]:
        """The files written since the last call, oldest first; to be synced now."""
        files = [segment.file for segment in self._unsynced]
        self._unsynced = []
        return files

    def made_durable(self, position: int) -> None:
        """A sync that began when ``written`` was ``position`` has ended."""
        invariant(self.flushed <= position <= self.written, "flushed <= written")
        self.flushed = position
        while len(self._active) > 1 and self._active[0].end <= position:
            self._open_files.unpin(self._active.pop(0).path)

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` written bytes; none where nothing is written."""
        return self.files.read(position, min(size, self.written - position)) if position < self.written else b""
