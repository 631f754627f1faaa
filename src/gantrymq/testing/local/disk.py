"""A disk in memory: nothing is lost but with the process, and nothing fails."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Sequence

from gantrymq.errors import StoreLocked
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Syncable, Usage
from gantrymq.runtime.guesses.memory import LEAST_CACHE_BYTES

TOTAL_BYTES = 1 << 40


class _Content:
    """A file's bytes up to the last one that was written; behind them up to ``size`` it reads as zeros."""

    __slots__ = ("data", "modified_ms", "size")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.size = 0
        self.modified_ms = modified_ms


class MemoryFile:
    __slots__ = ("_clock", "_content", "path")

    def __init__(self, path: str, content: _Content, clock: Clock) -> None:
        self.path = path
        self._content = content
        self._clock = clock

    def read(self, size: int, offset: int) -> bytes:
        content = self._content
        wanted = max(0, min(size, content.size - offset))
        found = bytes(content.data[offset : offset + wanted])
        return found if len(found) == wanted else found + bytes(wanted - len(found))

    def write(self, data: bytes, offset: int) -> None:
        content = self._content
        gap = offset - len(content.data)
        if gap > 0:
            content.data.extend(bytes(gap))
        content.data[offset : offset + len(data)] = data
        content.size = max(content.size, offset + len(data))
        content.modified_ms = self._clock.wall_ms()

    def truncate(self, size: int) -> None:
        del self._content.data[size:]
        self._content.size = size

    def allocate(self, size: int) -> None:
        self._content.size = max(size, self._content.size)

    def size(self) -> int:
        return self._content.size

    def next_data(self, offset: int) -> int | None:
        return offset if offset < len(self._content.data) else None

    def sync(self) -> None:
        """Memory is all there is."""

    def close(self) -> None:
        """Nothing is held."""


class _Nothing:
    """A lock or a held directory."""

    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)

    def sync(self) -> None:
        """Memory is all there is."""

    def close(self) -> None:
        """Nothing is held."""


class MemoryDisk:
    """Files in dictionaries. A broker that is started again on it finds what the one before has written."""

    cache_bytes = LEAST_CACHE_BYTES

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._directories: dict[str, dict[str, _Content]] = {"/": {}}
        self._locked: set[str] = set()

    def forget_locks(self) -> None:
        """The process that held them was killed."""
        self._locked = set()

    def _entries(self, path: str) -> tuple[dict[str, _Content], str]:
        directory, name = os.path.split(path)
        entries = self._directories.get(directory)
        if entries is None:
            raise FileNotFoundError(errno.ENOENT, "No such directory", directory)
        return entries, name

    def _content(self, path: str) -> _Content:
        entries, name = self._entries(path)
        content = entries.get(name)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return content

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if create and not self.exists(path):
            entries, name = self._entries(path)
            entries[name] = _Content(self._clock.wall_ms())
        return MemoryFile(path, self._content(path), self._clock)

    def protect(self, path: str) -> None:
        """Nobody else uses this disk."""

    def exists(self, path: str) -> bool:
        directory, name = os.path.split(path)
        return path in self._directories or name in self._directories.get(directory, {})

    def list(self, path: str) -> list[str]:
        inside = path.rstrip("/") + "/"
        below = (name[len(inside) :] for name in self._directories if name.startswith(inside) and name != path)
        return sorted([*self._directories.get(path, {}), *(name for name in below if "/" not in name)])

    def is_dir(self, path: str) -> bool:
        return path in self._directories

    def size(self, path: str) -> int:
        return self._content(path).size

    def make_dirs(self, path: str, *, durable: bool = True) -> None:
        while path not in self._directories:
            self._directories[path] = {}
            path = os.path.dirname(path)

    def remove(self, path: str) -> None:
        directory, name = os.path.split(path)
        self._directories.get(directory, {}).pop(name, None)

    def remove_dir(self, path: str) -> None:
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        self._directories.pop(path, None)

    def rename(self, source: str, target: str) -> None:
        content = self._content(source)
        entries, name = self._entries(target)
        entries[name] = content
        self.remove(source)

    def sync_dir(self, path: str) -> None:
        """Memory is all there is."""

    def open_dir(self, path: str) -> _Nothing:
        return _Nothing(self._locked, "")

    def modified_ms(self, path: str) -> int:
        return self._content(path).modified_ms

    def lock(self, path: str) -> _Nothing:
        if path in self._locked:
            raise StoreLocked(f"{path} is held by another broker")
        self.open(path, create=True)
        self._locked.add(path)
        return _Nothing(self._locked, path)

    def usage(self, path: str) -> Usage:
        return Usage(TOTAL_BYTES, 0, TOTAL_BYTES)

    def sync_later(self, files: Sequence[Syncable], done: Callable[[BaseException | None], None]) -> None:
        asyncio.get_running_loop().call_soon(done, None)

    def close(self) -> None:
        """No thread is at work."""
