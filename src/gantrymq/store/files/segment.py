"""One file of a fixed size. It knows bytes only."""

from __future__ import annotations

import os

from gantrymq.runtime.disk import Disk, File

CHUNK_BYTES = 1 << 20
"""How much is looked at in one go when a file is searched for bytes that are not zero."""
PAGE_BYTES = 4096
OPEN_FILES_LIMIT = 128
"""Files of one kind kept open; far below the usual limit of 1024 descriptors of a process."""


class OpenFiles:
    """Keeps the files in use open, and closes the oldest when there are too many. Pinned ones stay open."""

    def __init__(self, disk: Disk, limit: int = OPEN_FILES_LIMIT) -> None:
        self.disk = disk
        self._limit = limit
        self._open: dict[str, File] = {}
        self._pinned: set[str] = set()

    def get(self, path: str) -> File:
        """The open file at ``path``; FileNotFoundError when absent."""
        file = self._open.get(path)
        if file is None:
            self._make_room()
            file = self._open[path] = self.disk.open(path)
        return file

    def _make_room(self) -> None:
        if len(self._open) - len(self._pinned) < self._limit:
            return
        victim = next((path for path in self._open if path not in self._pinned), None)
        if victim is not None:
            self._open.pop(victim).close()

    def pin(self, path: str) -> File:
        """Keep ``path`` open: a background sync may be using it at any time."""
        self._pinned.add(path)
        return self.get(path)

    def unpin(self, path: str) -> None:
        self._pinned.discard(path)

    def forget(self, path: str) -> None:
        self._pinned.discard(path)
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        for path in list(self._open):
            self.forget(path)


class Segment:
    """One file that holds the bytes ``[base, base + size)`` of a sequence."""

    __slots__ = ("_files", "base", "end", "path", "size")

    def __init__(self, files: OpenFiles, directory: str, base: int, size: int) -> None:
        self._files = files
        self.base = base
        self.size = size
        self.end = base + size
        self.path = os.path.join(directory, segment_name(base))

    def create(self, *, durable: bool) -> None:
        """Make the file at its full size, as a hole. Raises DiskFull."""
        file = self._files.disk.open(self.path, create=True)
        try:
            file.truncate(self.size)
            if durable:
                file.sync()
        finally:
            file.close()
        if durable:
            self._files.disk.sync_dir(os.path.dirname(self.path))

    @property
    def file(self) -> File:
        return self._files.get(self.path)

    def read(self, position: int, size: int) -> bytes:
        """``size`` bytes at ``position`` of the sequence; fewer at the end of the file."""
        return self._files.get(self.path).read(min(size, self.end - position), position - self.base)

    def write(self, position: int, data: bytes) -> None:
        """Raises DiskFull."""
        self._files.get(self.path).write(data, position - self.base)

    def next_nonzero(self, position: int) -> int | None:
        """Position of the first byte at or behind ``position`` that is not zero; None when all are zero."""
        file = self._files.get(self.path)
        at: int | None = position - self.base
        while at is not None and at < self.size:
            at = file.next_data(at)
            if at is None or at >= self.size:
                return None
            data = file.read(min(CHUNK_BYTES, self.size - at), at)
            if not data:
                return None  # somebody has cut the file off
            rest = data.lstrip(b"\0")
            if rest:
                return self.base + at + len(data) - len(rest)
            at += len(data)
        return None

    def zero(self, start: int, end: int | None = None) -> int:
        """Put zeros over everything in ``[start, end)`` that is not zero; the number of bytes written.

        Nothing else is written: zeros may be holes, and a full disk could not take them.
        """
        limit = self.end if end is None else end
        done = 0
        at = self.next_nonzero(start)
        while at is not None and at < limit:
            stop = min(limit, at - (at - self.base) % PAGE_BYTES + PAGE_BYTES)
            length = len(self.read(at, stop - at).rstrip(b"\0"))
            self.write(at, bytes(length))
            done += length
            at = self.next_nonzero(stop) if stop < limit else None
        return done

    def remove(self) -> None:
        self._files.forget(self.path)
        self._files.disk.remove(self.path)


def segment_name(base: int) -> str:
    """File name of a segment: the position of its first byte in 20 digits. Source: UtilAll.offset2FileName."""
    return f"{base:020d}"
