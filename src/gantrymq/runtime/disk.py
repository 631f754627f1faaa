"""File access. All of it goes through ``Disk``, so that a test can simulate a power cut at every operation."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from gantrymq.errors import StoreError, StoreLocked
from gantrymq.runtime.guesses import memory
from gantrymq.runtime.guesses.mounts import OF_THE_FILE_SYSTEM
from gantrymq.runtime.os_files import OsDirectory, OsFile, OsLock, lock_whole_file, refusals


class File(Protocol):
    """An open file, read and written at given offsets. Two threads must not use it at once, except for ``sync``."""

    path: str

    def read(self, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes at ``offset``; fewer at the end of the file."""

    def write(self, data: bytes, offset: int) -> None:
        """Write all of ``data`` at ``offset``. Raises DiskFull (then any prefix may have been written)."""

    def truncate(self, size: int) -> None:
        """Make the file exactly ``size`` bytes long. Added bytes are zeros and take no space."""

    def allocate(self, size: int) -> None:
        """Make the file exactly ``size`` bytes long, no shorter than it is, and take the space for all of them now.
        Raises DiskFull; then it is as long as before."""

    def size(self) -> int: ...

    def next_data(self, offset: int) -> int | None:
        """A position at or after ``offset``, such that all bytes between ``offset`` and it are zero; None when all
        bytes to the end of the file are.

        This skips the holes of a sparse file. The byte at the returned position may be zero as well.
        """

    def sync(self) -> None:
        """Return once all data written so far is on stable storage. An error is final for the file's owner. Raises
        StoreError when the file is closed."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Usage:
    """Space of a file system, in bytes. ``used + free`` is below ``total`` if space is reserved for the superuser."""

    total: int
    used: int
    free: int
    """How much a program without privileges can still write."""

    @property
    def fullness(self) -> float:
        """The used share of the space that this program can use, from 0 to 1, as ``df`` shows it.

        Space that is reserved for the superuser counts neither as used nor as free. As a share of ``total`` the value
        would never reach 1.
        """
        reachable = self.used + self.free
        return self.used / reachable if reachable > 0 else 0.0


class Lock(Protocol):
    def release(self) -> None:
        """Release the lock. The operating system does this when the process dies."""


class Syncable(Protocol):
    """An object that ``sync_later`` can make durable; its ``sync`` runs in the background thread."""

    def sync(self) -> None: ...


class Directory(Protocol):
    """An open directory. Making it durable then needs no file descriptor that might not be available."""

    def sync(self) -> None:
        """Make creations, renames and removals in it durable."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute; ``sync_dir`` makes changes of a directory durable.

    When the operating system refuses an operation, a StoreError says what to do: DiskFull, TooManyOpenFiles,
    StoreUnavailable (no permission, read only) or another one. A missing file is a FileNotFoundError.
    """

    @property
    def cache_bytes(self) -> int:
        """How many of the bytes that were written last are most likely still in the operating system's memory: reading
        them again does not reach the medium, and no damage of the medium."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and writing. Raises FileNotFoundError when it is absent and ``create`` is False."""

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """The sorted names in a directory; empty when there is no such directory."""

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """The size of a file in bytes. Raises FileNotFoundError when it is absent."""

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        """Create a directory with its parents, if it does not exist. The new directories are durable on return, unless
        ``durable`` is False."""

    def remove(self, path: str) -> None:
        """Remove a file; harmless when absent."""

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; harmless when absent."""

    def rename(self, source: str, target: str) -> None:
        """Atomically give ``source`` the name ``target``, replacing it."""

    def protect(self, path: str) -> None:
        """Let nobody but the user of this process read or write a file."""

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable."""

    def open_dir(self, path: str) -> Directory:
        """Open a directory."""

    def modified_ms(self, path: str) -> int:
        """Time of the last modification, milliseconds since 1970 UTC."""

    def lock(self, path: str) -> Lock:
        """Take the exclusive lock file at ``path`` or raise StoreLocked at once."""

    def usage(self, path: str) -> Usage:
        """The usage of the file system on which ``path`` is, or will be when it is created."""

    def sync_later(self, files: Sequence[Syncable], done: Callable[[BaseException | None], None]) -> None:
        """Sync ``files`` in the background and then run ``done`` on the event loop with None or the error.

        Calls are executed one after another, in order. Whatever a file raises is an error of its call alone.
        """

    def close(self) -> None:
        """Wait for background syncs and end the thread."""


def read_whole(disk: Disk, path: str) -> bytes:
    """All bytes of a file. Raises FileNotFoundError when it is absent."""
    file = disk.open(path)
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()


def write_durably(disk: Disk, path: str, data: bytes, *, private: bool = False) -> None:
    """Replace a file so that a crash leaves either the old or the new content, never a mixture.

    ``private``: nobody but the user of this process can read the file, at any moment.

    The steps are: write a temporary file, sync it, rename it, sync the directory. When this raises, the old content is
    there, because the directory is opened before the rename. Only if the last sync fails may either content be there.
    """
    temporary = path + ".tmp"
    directory = disk.open_dir(os.path.dirname(path))
    try:
        try:
            _write_synced(disk, temporary, data, private)
            disk.rename(temporary, path)
        except StoreError:
            with contextlib.suppress(StoreError, OSError):
                disk.remove(temporary)
            raise
        directory.sync()
    finally:
        directory.close()


def _write_synced(disk: Disk, path: str, data: bytes, private: bool) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        if private:
            disk.protect(path)  # before there is anything to read
        file.write(data, 0)
        file.sync()
    finally:
        file.close()


Syncs: TypeAlias = "queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, Sequence[Syncable], Done] | None]"
Done: TypeAlias = Callable[[BaseException | None], None]


class OsDisk:
    """The file systems of this machine, with one background thread for syncs."""

    def __init__(self) -> None:
        self._flusher: threading.Thread | None = None
        self._syncs: Syncs = queue.SimpleQueue()

    @property
    def cache_bytes(self) -> int:
        return memory.cache_bytes()

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with refusals("to create" if create else "to open", path):
            return OsFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, path: str) -> list[str]:
        try:
            return sorted(name for name in os.listdir(path) if name not in OF_THE_FILE_SYSTEM)
        except FileNotFoundError:
            return []

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        missing = []
        parent = Path(path)
        while not parent.exists():
            missing.append(parent)
            parent = parent.parent
        for directory in reversed(missing):
            with refusals("to make", str(directory)):
                directory.mkdir(exist_ok=True)
            if durable:
                self.sync_dir(str(directory.parent))

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_dir(self, path: str) -> None:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return

    def rename(self, source: str, target: str) -> None:
        with refusals("to replace", target):
            os.replace(source, target)

    def protect(self, path: str) -> None:
        with refusals("to protect", path):
            os.chmod(path, 0o600)

    def sync_dir(self, path: str) -> None:
        directory = self.open_dir(path)
        try:
            directory.sync()
        finally:
            directory.close()

    def open_dir(self, path: str) -> OsDirectory:
        with refusals("to open", path):
            return OsDirectory(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def lock(self, path: str) -> Lock:
        with refusals("to open", path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            lock_whole_file(fd)
        except OSError as error:
            os.close(fd)
            raise StoreLocked(
                f"{path} is held by another process; stop the broker that uses this store, or choose another directory"
            ) from error
        if os.pread(fd, 5, 0) != b"lock":
            os.pwrite(fd, b"lock", 0)
        return OsLock(fd)

    def usage(self, path: str) -> Usage:
        stat = _statvfs_of_nearest(path)
        total = stat.f_blocks * stat.f_frsize
        # As in `df`, space that only the superuser can use is not free.
        free = stat.f_bavail * stat.f_frsize
        return Usage(total=total, used=(stat.f_blocks - stat.f_bfree) * stat.f_frsize, free=free)

    def sync_later(self, files: Sequence[Syncable], done: Callable[[BaseException | None], None]) -> None:
        if self._flusher is None:
            self._flusher = threading.Thread(target=_sync_all, args=(self._syncs,), name="gantry-flush", daemon=True)
            self._flusher.start()
        self._syncs.put((asyncio.get_running_loop(), files, done))

    def close(self) -> None:
        if self._flusher is not None:
            self._syncs.put(None)
            self._flusher.join()
            self._flusher = None


def _statvfs_of_nearest(path: str) -> os.statvfs_result:
    """The figures of the file system of ``path``. If ``path`` does not exist, of the nearest directory above it."""
    while True:
        try:
            return os.statvfs(path)
        except FileNotFoundError:
            above = os.path.dirname(path)
            if above == path:
                raise
            path = above


def _sync_all(syncs: Syncs) -> None:
    """The flush thread. It reads a plain queue, because an executor would hand over the interpreter lock several times
    for each sync."""
    while (item := syncs.get()) is not None:
        loop, files, done = item
        error: BaseException | None = None
        try:
            for file in files:
                file.sync()
        except BaseException as failure:  # noqa: BLE001 # without this thread nothing would be acknowledged any more
            error = failure
        with contextlib.suppress(RuntimeError):  # the event loop was closed, and nothing waits for the result
            loop.call_soon_threadsafe(done, error)
        del item, files, done  # otherwise files that their owner has abandoned stay open until the next sync
