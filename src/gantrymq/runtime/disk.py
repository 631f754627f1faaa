"""All file access of the product goes through ``Disk``, so that a test can cut the power at every operation."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Protocol, TypeAlias

from gantrymq.errors import DiskFull, StoreError, StoreLocked, StoreUnavailable, TooManyOpenFiles

FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
DESCRIPTOR_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE})
RIGHTS_ERRNOS = frozenset({errno.EACCES, errno.EPERM})


class File(Protocol):
    """A file open for positional reading and writing. Not safe for use by two threads at once, except ``sync``."""

    path: str

    def read(self, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes at ``offset``; shorter at the end of the file."""

    def write(self, data: bytes, offset: int) -> None:
        """Write all of ``data`` at ``offset``. Raises DiskFull (then any prefix may have been written)."""

    def truncate(self, size: int) -> None:
        """Make the file exactly ``size`` bytes; growth reads as zeros and takes no space."""

    def size(self) -> int: ...

    def next_data(self, offset: int) -> int | None:
        """A place at or behind ``offset`` before which all bytes from there are zero; None when the rest is a hole.

        Only a shortcut over the holes of a sparse file: what lies at the answer may be zero as well.
        """

    def sync(self) -> None:
        """Return once all data written so far is on stable storage. An error is final for the file's owner."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Usage:
    """Space of a file system, in bytes. ``used + free`` is below ``total`` where space is kept for the superuser."""

    total: int
    used: int
    free: int
    """What a program without privileges can still write."""

    @property
    def fullness(self) -> float:
        """Share in use of what this program could ever write, from 0 to 1, as ``df`` shows it.

        Space that is reserved for the superuser counts neither as used nor as free: a share of ``total`` would never
        reach 1.
        """
        reachable = self.used + self.free
        return self.used / reachable if reachable > 0 else 0.0


class Lock(Protocol):
    def release(self) -> None:
        """Let others take the lock. The operating system does it when the process dies."""


class Syncable(Protocol):
    """Something ``sync_later`` can make durable; ``sync`` runs in the background thread."""

    def sync(self) -> None: ...


class Directory(Protocol):
    """A directory that is held, so that making it durable needs nothing that could be missing then."""

    def sync(self) -> None:
        """Make creations, renames and removals in it durable."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute; directories are made durable by ``sync_dir``.

    A refusal of the system is a StoreError that says what to do: DiskFull, TooManyOpenFiles, StoreUnavailable (no
    permission, read only) or another one. A missing file is a FileNotFoundError.
    """

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; FileNotFoundError when absent and not ``create``."""

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Sorted names in a directory; empty when there is no such directory."""

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """Bytes of a file; FileNotFoundError when absent."""

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        """Create a directory with its parents, durably unless told otherwise; harmless when it exists."""

    def remove(self, path: str) -> None:
        """Remove a file; harmless when absent."""

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; harmless when absent."""

    def rename(self, source: str, target: str) -> None:
        """Atomically give ``source`` the name ``target``, replacing it."""

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable."""

    def open_dir(self, path: str) -> Directory:
        """Hold a directory."""

    def modified_ms(self, path: str) -> int:
        """Time of the last modification, milliseconds since 1970 UTC."""

    def lock(self, path: str) -> Lock:
        """Take the exclusive lock file at ``path`` or raise StoreLocked at once."""

    def usage(self, path: str) -> Usage:
        """Of the file system that ``path`` is on, or will be when it is made."""

    def sync_later(self, files: Sequence[Syncable], done: Callable[[BaseException | None], None]) -> None:
        """Sync ``files`` in the background and then run ``done`` on the event loop with None or the error.

        Calls are executed one after another, in order.
        """

    def close(self) -> None:
        """Wait for background syncs and give up the thread."""


def read_whole(disk: Disk, path: str) -> bytes:
    """All bytes of a file; FileNotFoundError when absent."""
    file = disk.open(path)
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()


def write_durably(disk: Disk, path: str, data: bytes) -> None:
    """Replace a file so that a crash leaves either the old or the new content, never a mixture.

    Temporary file, sync, rename, sync of the directory. When it raises, the old content is there and nothing else: all
    that is needed behind the rename is held before. Only a disk that fails in that last sync leaves it open which.
    """
    temporary = path + ".tmp"
    directory = disk.open_dir(os.path.dirname(path))
    try:
        try:
            _write_synced(disk, temporary, data)
            disk.rename(temporary, path)
        except StoreError:
            with contextlib.suppress(StoreError, OSError):
                disk.remove(temporary)
            raise
        directory.sync()
    finally:
        directory.close()


def _write_synced(disk: Disk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write(data, 0)
        file.sync()
    finally:
        file.close()


def refusal(error: OSError, what: str, path: str) -> StoreError:
    """What the system refused, as an error that says what to do. ``what``: ``to write``, ``to open``, ..."""
    if error.errno in FULL_ERRNOS:
        return DiskFull(f"no space left {what} {path}; free space on its file system")
    if error.errno in DESCRIPTOR_ERRNOS:
        return TooManyOpenFiles(
            f"too many open files {what} {path}; raise the limit (ulimit -n, LimitNOFILE of a service) and start it "
            "again, or let some clients disconnect"
        )
    if error.errno in RIGHTS_ERRNOS:
        return StoreUnavailable(
            f"no right {what} {path} ({error.strerror}); give it to the user that this program runs as"
        )
    if error.errno == errno.EROFS:
        return StoreUnavailable(f"it is not possible {what} {path}: its file system is read only; mount it for writing")
    return StoreError(f"it was not possible {what} {path}: {error}")


@contextlib.contextmanager
def _refusals(what: str, path: str) -> Iterator[None]:
    """Have refusals of the system told; what is absent stays a FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refusal(error, what, path) from error


Syncs: TypeAlias = "queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, Sequence[Syncable], Done] | None]"
Done: TypeAlias = Callable[[BaseException | None], None]


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def read(self, size: int, offset: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size:
            more = os.pread(self._fd, size - got, offset + got)
            if not more:
                break
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def write(self, data: bytes, offset: int) -> None:
        try:
            done = os.pwrite(self._fd, data, offset)
            while done < len(data):
                done += os.pwrite(self._fd, memoryview(data)[done:], offset + done)
        except OSError as error:
            raise refusal(error, "to write", self.path) from error

    def truncate(self, size: int) -> None:
        with _refusals("to set the size of", self.path):
            os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def next_data(self, offset: int) -> int | None:
        try:
            return os.lseek(self._fd, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            return offset  # a file system that does not know its holes

    def sync(self) -> None:
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise refusal(error, "to sync", self.path) from error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        # A store that was given up (an error, a test of a crash) must not keep its descriptors for the process's life.
        self.close()


class OsDirectory:
    """A directory of the operating system, held open."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd

    def sync(self) -> None:
        with _refusals("to sync", self._path):
            os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def _lock_whole_file(fd: int) -> None:
    """Take the exclusive record lock of a file, or raise OSError at once.

    Java's FileChannel.lock is a POSIX record lock on the whole file; a lock of the same kind (and not flock) is what
    makes an Apache broker and this one exclude each other. Where the system has it, the lock belongs to the open file
    and not to the process: then two stores in one process exclude each other, too.
    """
    of_open_file = getattr(fcntl, "F_OFD_SETLK", None)
    if of_open_file is None:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        fcntl.fcntl(fd, of_open_file, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


_FLOCK = Struct("@hhqqi0q")
"""struct flock: type, whence, start, length (0: to the end), process (0)."""


class OsLock:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class OsDisk:
    """The file systems of this machine, with one background thread for syncs."""

    def __init__(self) -> None:
        self._flusher: threading.Thread | None = None
        self._syncs: Syncs = queue.SimpleQueue()

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with _refusals("to create" if create else "to open", path):
            return OsFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
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
            with _refusals("to make", str(directory)):
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
        with _refusals("to replace", target):
            os.replace(source, target)

    def sync_dir(self, path: str) -> None:
        directory = self.open_dir(path)
        try:
            directory.sync()
        finally:
            directory.close()

    def open_dir(self, path: str) -> OsDirectory:
        with _refusals("to open", path):
            return OsDirectory(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def lock(self, path: str) -> Lock:
        with _refusals("to open", path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock_whole_file(fd)
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
        # As `df` counts: what only the superuser could still write is not free.
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
    """Of ``path`` or, as long as it does not exist, of the nearest directory above it."""
    while True:
        try:
            return os.statvfs(path)
        except FileNotFoundError:
            above = os.path.dirname(path)
            if above == path:
                raise
            path = above


def _sync_all(syncs: Syncs) -> None:
    """The flush thread. A plain queue: an executor costs several hand-overs of the interpreter lock for each sync."""
    while (item := syncs.get()) is not None:
        loop, files, done = item
        error: BaseException | None = None
        try:
            for file in files:
                file.sync()
        except (OSError, StoreError) as failure:
            error = failure
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits for the outcome
            loop.call_soon_threadsafe(done, error)
        del item, files, done  # held until the next sync, they would keep files open that their owner gave up
