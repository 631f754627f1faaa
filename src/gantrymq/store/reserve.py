"""Space that is taken before it is needed: a private file of a fixed size, which is given back when a disk is full.

Sends are refused long before a disk is full, but another program may fill it, too. What a broker must still write then
gets the space of this file: decisions about half messages, copies that are parked, offsets, settings. The file holds
nothing; deleting it loses nothing, and the next look makes it again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.errors import DiskFull, StoreError
from gantrymq.runtime.disk import Directory, Disk, File, Lock, Syncable, Usage

log = logging.getLogger("gantrymq.store")

BLOCK_BYTES: Final = 4096
CHUNKS: Final = 16
"""The reserve is given back in so many parts, so that another program cannot take all of it at once."""
LARGEST_SHARE: Final = 16
"""At most this part of the file system is taken (1/16): small volumes exist."""


class Reserve:
    """The file. ``base``: bytes that it has at least, if the disk has them; 0: there is no reserve."""

    def __init__(self, disk: Disk, path: str, base: int) -> None:
        self._disk = disk
        self._path = path
        self.base: Final = base
        self.chunk: Final = _whole_blocks(base // CHUNKS)
        self.size = disk.size(path) if disk.exists(path) else 0
        """Bytes that are taken now."""
        self.given_back = 0
        """Bytes that were given back since the start, because the disk was full."""
        self._complained = False

    def fit(self, target: int, free: int) -> None:
        """Make the file as large as ``target`` says, as far as ``free`` bytes of the file system allow; a part of them
        stays free, so that what was given back is not taken again at once."""
        target = _whole_blocks(target)
        size = min(target, self.size + max(0, free - 2 * self.chunk) // BLOCK_BYTES * BLOCK_BYTES)
        if size > self.size or self.size - target > 2 * self.base:
            self._resize(size)

    def release(self, wanted: int) -> int:
        """Give back space for ``wanted`` bytes; how many bytes were given back."""
        part = min(self.size, max(self.chunk, _whole_blocks(wanted)))
        if part:
            before = self.size
            self._resize(self.size - part)
            self.given_back += before - self.size
            return before - self.size
        return 0

    def _resize(self, size: int) -> None:
        try:
            self._disk.make_dirs(os.path.dirname(self._path), durable=False)
            file = self._disk.open(self._path, create=True)
            try:
                if size < self.size:
                    file.truncate(size)
                else:
                    file.allocate(size)
            finally:
                file.close()
        except (StoreError, OSError) as error:
            if not self._complained:
                log.warning("the reserve %s cannot have %d bytes: %s", self._path, size, error)
            self._complained = True
            return
        self._complained = False
        self.size = size


def _whole_blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


class ReservedDisk:
    """A disk for small files that must be written whatever happens: when it is full, they get space of the reserve.

    Not for what can be derived again: it would use up the reserve. ``reserve`` is set when the store is open.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.make_room: Callable[[int], bool] = lambda _size: False
        """Gives back so many bytes of the reserve; False when there are none."""

    @property
    def cache_bytes(self) -> int:
        return self._disk.cache_bytes

    def open(self, path: str, *, create: bool = False) -> File:
        try:
            return _ReservedFile(self._disk.open(path, create=create), self)
        except DiskFull:
            if not self.make_room(BLOCK_BYTES):
                raise
        return _ReservedFile(self._disk.open(path, create=create), self)

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        try:
            self._disk.make_dirs(path, durable=durable)
        except DiskFull:
            if not self.make_room(BLOCK_BYTES):
                raise
            self._disk.make_dirs(path, durable=durable)

    def rename(self, source: str, target: str) -> None:
        try:
            self._disk.rename(source, target)
        except DiskFull:
            if not self.make_room(BLOCK_BYTES):
                raise
            self._disk.rename(source, target)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def list(self, path: str) -> list[str]:
        return self._disk.list(path)

    def is_dir(self, path: str) -> bool:
        return self._disk.is_dir(path)

    def size(self, path: str) -> int:
        return self._disk.size(path)

    def remove(self, path: str) -> None:
        self._disk.remove(path)

    def remove_dir(self, path: str) -> None:
        self._disk.remove_dir(path)

    def protect(self, path: str) -> None:
        self._disk.protect(path)

    def sync_dir(self, path: str) -> None:
        self._disk.sync_dir(path)

    def open_dir(self, path: str) -> Directory:
        return self._disk.open_dir(path)

    def modified_ms(self, path: str) -> int:
        return self._disk.modified_ms(path)

    def lock(self, path: str) -> Lock:
        return self._disk.lock(path)

    def usage(self, path: str) -> Usage:
        return self._disk.usage(path)

    def sync_later(self, files: Sequence[Syncable], done: Callable[[BaseException | None], None]) -> None:
        self._disk.sync_later(files, done)

    def close(self) -> None:
        self._disk.close()


class _ReservedFile:
    """A file of a ``ReservedDisk``."""

    def __init__(self, file: File, disk: ReservedDisk) -> None:
        self.path = file.path
        self._file = file
        self._disk = disk

    def write(self, data: bytes, offset: int) -> None:
        try:
            self._file.write(data, offset)
        except DiskFull:
            if not self._disk.make_room(len(data)):
                raise
            self._file.write(data, offset)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def allocate(self, size: int) -> None:
        self._file.allocate(size)

    def read(self, size: int, offset: int) -> bytes:
        return self._file.read(size, offset)

    def size(self) -> int:
        return self._file.size()

    def next_data(self, offset: int) -> int | None:
        return self._file.next_data(offset)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()
