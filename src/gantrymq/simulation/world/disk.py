"""A disk in memory that can lose power, fill up and fail a sync. Everything random comes from a seed.

What a power cut leaves, as file systems promise it and no more:

* data that was synced: a sync catches what was written before it began, and it may take a while; of every later write
  all, nothing, or some sectors, each write on its own;
* of the names in a directory what was synced by ``sync_dir``, and of later changes a beginning, in order;
* the size of a file: a later ``truncate`` may be missing, then the writes behind it are, too.
"""

from __future__ import annotations

import asyncio
import bisect
import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gantrymq.errors import DiskFull, StoreError, StoreLocked
from gantrymq.runtime.disk import File, Lock, Syncable, Usage
from gantrymq.runtime.guesses.memory import LEAST_CACHE_BYTES
from gantrymq.simulation.world.disk_content import SECTOR, Content, resize
from gantrymq.simulation.world.disk_failures import Failures


class PowerCut(BaseException):
    """The machine is off. Not an Exception: no handler of the product may go on."""


class SimFile:
    def __init__(self, disk: SimDisk, path: str, content: Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content
        self._closed = False

    def _use(self) -> Content:
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        return self._content

    def read(self, size: int, offset: int) -> bytes:
        return bytes(self._use().data[offset : offset + size])

    def write(self, data: bytes, offset: int) -> None:
        content = self._use()
        self._disk.happens()
        broken = self._disk.failures.write_fails(self.path)
        room = self._disk.room_for(content, offset, len(data) // 2 if broken else len(data))
        part = data[:room]
        if part:
            if offset + room > len(content.data):
                resize(content.data, offset + room)
            content.data[offset : offset + room] = part
            content.change((offset, bytes(part)), self._disk.moment)
            content.modified_ms = self._disk.now_ms
        if broken:
            raise StoreError(f"writing {self.path} failed: [Errno {errno.EIO}] Input/output error")
        if room < len(data):
            self._disk.injected["write refused by a full disk"] += 1
            raise DiskFull(f"no space left for {self.path}; free space on its file system")

    def truncate(self, size: int) -> None:
        content = self._use()
        self._disk.happens()
        before = content.space
        if content.taken:
            content.taken = min(content.taken, size)
            self._disk.give_back(before - content.space)
            return
        resize(content.data, size)
        content.allocated = {sector for sector in content.allocated if sector * SECTOR < size}
        content.change(size, self._disk.moment)
        self._disk.give_back(before - content.space)

    def allocate(self, size: int) -> None:
        content = self._use()
        self._disk.happens()
        self._disk.take(size - content.taken, self.path)
        content.taken = size

    def size(self) -> int:
        content = self._use()
        return max(len(content.data), content.taken)

    def next_data(self, offset: int) -> int | None:
        sectors = [sector for sector in self._use().allocated if (sector + 1) * SECTOR > offset]
        return max(offset, min(sectors) * SECTOR) if sectors else None

    def sync(self) -> None:
        if self._closed:
            raise StoreError(f"{self.path} was closed before it was synced")
        content = self._use()
        self._disk.happens()
        if self._disk.failures.sync_fails(self.path):
            content.forget(self._disk.moment)
            raise OSError(errno.EIO, "Input/output error", self.path)
        content.settle(self._disk.begun)

    def close(self) -> None:
        self._closed = True


@dataclass
class _Directory:
    entries: dict[str, Content | None] = field(default_factory=dict)
    """Name to content; None is a directory."""
    durable: dict[str, Content | None] = field(default_factory=dict)
    unsynced: list[dict[str, Content | None]] = field(default_factory=list)
    """The entries after every change that is not durable."""
    moments: list[int] = field(default_factory=list)
    """Of each change in ``unsynced``; they grow."""

    def changed(self, moment: int) -> None:
        self.unsynced.append(dict(self.entries))
        self.moments.append(moment)

    def settle(self, until: int) -> None:
        """Make durable what was changed up to a moment."""
        count = bisect.bisect_right(self.moments, until)
        if count:
            self.durable = self.unsynced[count - 1]
        self.unsynced, self.moments = self.unsynced[count:], self.moments[count:]


class SimLock:
    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locked.discard(self._path)


class SimHeldDirectory:
    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def sync(self) -> None:
        self._disk.sync_dir(self._path)

    def close(self) -> None:
        return


class SimDisk:
    """See the module. Background syncs happen in a later turn of the loop, or when ``release_sync`` is called."""

    cache_bytes = LEAST_CACHE_BYTES

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self.seed = seed
        self._directories: dict[str, _Directory] = {"/": _Directory()}
        self._removed: dict[str, _Directory] = {}
        """Directories that come back when their removal does not survive."""
        self.locked: set[str] = set()
        self.now_ms = 1_700_000_000_000
        self.free_bytes: int | None = None
        """Space left for sectors that hold nothing yet; None for any amount."""
        self.total_bytes = 1 << 40
        self.used_bytes = 0
        self.reserved_bytes = 0
        """Of ``total_bytes`` what only the superuser may write."""
        self.operations_left: int | None = None
        """The power goes off when so many more changes were made."""
        self.when_off: Callable[[], None] | None = None
        """Told when that happens."""
        self.operations = 0
        self.injected: Counter[str] = Counter()
        """Faults that really happened, by kind. The disk that is left after a crash goes on with the same one."""
        self.failures = Failures(self.injected)
        self.moment = 0
        """Counts operations, and goes on counting when a process dies: so changes of two processes have an order."""
        self._begun: int | None = None
        self.sync_s = 0.0
        """A sync in the background takes so long at most."""
        self.hold_syncs = False
        self._held: list[Callable[[], None]] = []
        self._off = False

    # ---- faults

    def happens(self) -> None:
        """Every change of the disk goes through here."""
        if self._off:
            raise PowerCut
        self.operations += 1
        self.moment += 1
        if self.operations_left is not None:
            if self.operations_left <= 0:
                self._off = True
                self.injected["power cut in an operation"] += 1
                if self.when_off is not None:
                    self.when_off()
                raise PowerCut
            self.operations_left -= 1

    @property
    def begun(self) -> int:
        """The moment when the sync began that ends now; what was changed later it need not have caught."""
        return self.moment if self._begun is None else self._begun

    def fail_next_sync(self, path_part: str) -> None:
        self.failures.sync = path_part

    def fail_next_write(self, path_part: str) -> None:
        """With EIO, and half of it is in the file."""
        self.failures.write = path_part

    def room_for(self, content: Content, offset: int, size: int) -> int:
        """How many of the bytes fit; takes the space."""
        for at in range(offset - offset % SECTOR, offset + size, SECTOR):
            sector = at // SECTOR
            if sector in content.allocated:
                continue
            if self.free_bytes is not None:
                if self.free_bytes < SECTOR:
                    return max(0, at - offset)
                self.free_bytes -= SECTOR
            content.allocated.add(sector)
        return size

    def take(self, size: int, path: str) -> None:
        """Space for a file in advance; DiskFull when there is not so much."""
        if self.free_bytes is not None:
            if self.free_bytes < size:
                self.injected["write refused by a full disk"] += 1
                raise DiskFull(f"no space left to take for {path}; free space on its file system")
            self.free_bytes -= size

    def give_back(self, size: int) -> None:
        """A file that was removed or cut off gives back its space."""
        if self.free_bytes is not None:
            self.free_bytes += size

    @property
    def capacity(self) -> int | None:
        """Bytes that files here may take together, those that are there included; None for any amount."""
        return None if self.free_bytes is None else self.free_bytes + self.taken

    @capacity.setter
    def capacity(self, size: int | None) -> None:
        self.free_bytes = None if size is None else max(0, size - self.taken)

    @property
    def taken(self) -> int:
        """Bytes that all files take."""
        return sum(
            content.space
            for directory in self._directories.values()
            for content in directory.entries.values()
            if content is not None
        )

    def bytes_of(self, path: str) -> tuple[bytearray, bytearray]:
        """A file's bytes as programs see them and as they are on the platters, for who wants to damage them."""
        directory, name = self._parent(path)
        content = directory.entries[name]
        return (bytearray(), bytearray()) if content is None else (content.data, content.durable)

    def unsynced_of(self, path: str) -> list[tuple[int, int]]:
        """Ranges of a file that were written and not synced."""
        directory, name = self._parent(path)
        content = directory.entries.get(name)
        changes = content.unsynced if content is not None else []
        return [(change[0], change[0] + len(change[1])) for change in changes if not isinstance(change, int)]

    def power_cut(self) -> SimDisk:
        """The disk as the next start finds it; this one can no longer be used."""
        after = self._next()
        after._directories = {}
        contents: dict[int, Content] = {}
        self._survive("/", after, contents)
        return after

    def process_dies(self) -> SimDisk:
        """The disk as the next process finds it when only this one was killed: every write is there, synced or not."""
        after = self._next()
        after._directories = self._directories
        after.moment = self.moment
        return after

    def _next(self) -> SimDisk:
        self._off = True
        after = SimDisk(self._rng.randrange(1 << 32))
        after.now_ms = self.now_ms
        after.watch(self.injected)
        return after

    def watch(self, injected: Counter[str]) -> None:
        """Count faults there from now on."""
        self.injected = self.failures.injected = injected

    def _survive(self, path: str, after: SimDisk, contents: dict[int, Content]) -> None:
        directory = self._directories.get(path) or self._removed[path]
        states = [directory.durable, *directory.unsynced]
        entries: dict[str, Content | None] = {}
        for name, content in self._rng.choice(states).items():
            if content is None:
                entries[name] = None
                self._survive(os.path.join(path, name), after, contents)
            else:
                entries[name] = contents.setdefault(id(content), content.after_power_cut(self._rng))
        after._directories[path] = _Directory(entries, dict(entries))

    def release_sync(self) -> None:
        """Let the oldest held sync happen."""
        self._held.pop(0)()

    @property
    def held(self) -> int:
        return len(self._held)

    # ---- Disk

    def _parent(self, path: str) -> tuple[_Directory, str]:
        directory, name = os.path.split(path)
        if directory not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "No such directory", directory)
        return self._directories[directory], name

    def open(self, path: str, *, create: bool = False) -> File:
        directory, name = self._parent(path)
        if name not in directory.entries:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file", path)
            self.happens()
            directory.entries[name] = Content(modified_ms=self.now_ms)
            directory.changed(self.moment)
        content = directory.entries[name]
        if content is None:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return SimFile(self, path, content)

    def protect(self, path: str) -> None:
        """Nobody else uses this disk."""

    def exists(self, path: str) -> bool:
        directory = self._directories.get(os.path.dirname(path))
        return path in self._directories or (directory is not None and os.path.basename(path) in directory.entries)

    def list(self, path: str) -> list[str]:
        directory = self._directories.get(path)
        return sorted(directory.entries) if directory is not None else []

    def is_dir(self, path: str) -> bool:
        return path in self._directories

    def size(self, path: str) -> int:
        file = self.open(path)
        return file.size()

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        if path in self._directories:
            return
        parent = os.path.dirname(path)
        self.make_dirs(parent, durable=durable)
        directory, name = self._parent(path)
        self.happens()
        directory.entries[name] = None
        directory.changed(self.moment)
        self._directories[path] = _Directory()
        if durable:
            self.sync_dir(parent)

    def remove(self, path: str) -> None:
        if self.exists(path):
            directory, name = self._parent(path)
            self.happens()
            content = directory.entries.pop(name)
            directory.changed(self.moment)
            self.give_back(0 if content is None else content.space)

    def remove_dir(self, path: str) -> None:
        if path not in self._directories:
            return
        if self._directories[path].entries:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        directory, name = self._parent(path)
        self.happens()
        del directory.entries[name]
        directory.changed(self.moment)
        self._removed[path] = self._directories.pop(path)

    def rename(self, source: str, target: str) -> None:
        directory, name = self._parent(source)
        other, new = self._parent(target)
        if other is not directory:
            raise NotImplementedError("a rename between directories is not simulated")
        self.happens()
        replaced = directory.entries.get(new)
        directory.entries[new] = directory.entries.pop(name)
        directory.changed(self.moment)
        self.give_back(0 if replaced is None else replaced.space)

    def sync_dir(self, path: str) -> None:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        self.happens()
        directory = self._directories[path]
        directory.settle(self.begun)

    def open_dir(self, path: str) -> SimHeldDirectory:
        return SimHeldDirectory(self, path)

    def modified_ms(self, path: str) -> int:
        directory, name = self._parent(path)
        content = directory.entries[name]
        return content.modified_ms if content is not None else self.now_ms

    def lock(self, path: str) -> Lock:
        if path in self.locked:
            raise StoreLocked(f"{path} is held by another process; stop the broker that uses this store")
        file = self.open(path, create=True)
        if file.size() == 0:
            file.write(b"lock", 0)
        self.locked.add(path)
        return SimLock(self, path)

    def usage(self, path: str) -> Usage:
        free = max(0, self.total_bytes - self.used_bytes - self.reserved_bytes)
        if self.free_bytes is None:
            return Usage(self.total_bytes, self.used_bytes, free)
        left = min(free, self.free_bytes)
        return Usage(self.total_bytes, self.used_bytes + free - left, left)

    def sync_later(self, files: Sequence[Syncable], done: Callable[[BaseException | None], None]) -> None:
        loop = asyncio.get_running_loop()
        begun = self.moment

        def work() -> None:
            if self._off:
                return
            try:
                error = self._synced(files, begun)
            except PowerCut:
                return
            loop.call_soon(done, error)

        if self.hold_syncs or self._held:
            self._held.append(work)
        elif self.sync_s:
            loop.call_later(self._rng.uniform(0, self.sync_s), work)
        else:
            loop.call_soon(work)

    def _synced(self, files: Sequence[Syncable], begun: int) -> BaseException | None:
        """End a sync that began at a moment: its error, or None. Raises PowerCut."""
        self._begun = begun
        try:
            for file in files:
                file.sync()
        except PowerCut:
            raise
        except BaseException as failure:  # noqa: BLE001 # as the real one
            return failure
        finally:
            self._begun = None
        return None

    def close(self) -> None:
        while self._held:
            self.release_sync()
