"""Files, directories and locks of the operating system, and what its refusals mean."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from struct import Struct

from gantrymq.errors import DiskFull, StoreError, StoreUnavailable, TooManyOpenFiles

FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
DESCRIPTOR_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE})
_ZEROS_BYTES = 1 << 20
RIGHTS_ERRNOS = frozenset({errno.EACCES, errno.EPERM})


def refusal(error: OSError, what: str, path: str) -> StoreError:
    """The error for what the operating system refused; it says what to do. ``what``: ``to write``, ``to open``, ..."""
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
def refusals(what: str, path: str) -> Iterator[None]:
    """Turn an OSError in the block into a StoreError, except FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refusal(error, what, path) from error


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_change", "_ending", "_fd", "_syncs", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._change = threading.Lock()
        self._syncs = 0
        """Those that run, in other threads."""
        self._ending = -1
        """The descriptor of a file that was closed while it is synced. It ends behind the sync, which must not sync the
        file that gets its number next, and say that this one is synced."""

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
        with refusals("to set the size of", self.path):
            os.ftruncate(self._fd, size)

    def allocate(self, size: int) -> None:
        before = self.size()
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._fd, 0, size)
            else:
                for at in range(before, size, _ZEROS_BYTES):
                    os.pwrite(self._fd, bytes(min(_ZEROS_BYTES, size - at)), at)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, before)
            raise refusal(error, "to take space for", self.path) from error

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def next_data(self, offset: int) -> int | None:
        try:
            return os.lseek(self._fd, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            return offset  # the file system cannot tell where holes are

    def sync(self) -> None:
        with self._change:
            fd = self._fd
            if fd < 0:
                raise StoreError(f"{self.path} was closed before it was synced")
            self._syncs += 1
        try:
            os.fdatasync(fd)
        except OSError as error:
            raise refusal(error, "to sync", self.path) from error
        finally:
            with self._change:
                self._syncs -= 1
                if self._ending >= 0 and self._syncs == 0:
                    os.close(self._ending)
                    self._ending = -1

    def close(self) -> None:
        with self._change:
            fd, self._fd = self._fd, -1
            if fd >= 0 and self._syncs == 0:
                os.close(fd)
            elif fd >= 0:
                self._ending = fd

    def __del__(self) -> None:
        # A store that was abandoned (an error, a test of a crash) must not keep its descriptors until the process ends.
        self.close()


class OsDirectory:
    """A directory of the operating system, held open."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd

    def sync(self) -> None:
        with refusals("to sync", self._path):
            os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def lock_whole_file(fd: int) -> None:
    """Take the exclusive record lock of a file, or raise OSError at once.

    Java's FileChannel.lock is a POSIX record lock on the whole file. This takes a lock of the same kind (not flock), so
    that an Apache broker and this one exclude each other. If the operating system supports it, the lock belongs to the
    open file and not to the process, so that two stores in one process exclude each other, too.
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
