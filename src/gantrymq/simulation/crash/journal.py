"""A simulated disk that remembers, before each of its operations, what a power cut at that point could leave."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from gantrymq.runtime.disk import Syncable
from gantrymq.simulation.world.disk import SimDisk, _Directory
from gantrymq.simulation.world.disk_content import SECTOR as GRAIN
from gantrymq.simulation.world.disk_content import Content

Change: TypeAlias = "tuple[int, bytes] | int"
"""A write (offset, bytes), or the new size of a file."""
Entries: TypeAlias = "Mapping[str, int | None]"
"""Name to the number of a file; None is a directory."""

_ZEROS = bytes(GRAIN)
SYNCED = -(1 << 30)
"""The number of the operation that made what is surely on the disk; what a process before this one did has negative
numbers, too."""
SYNC_S = 0.002
"""A background sync takes so long; others write meanwhile, and that is not synced."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptFile:
    """A file: what is surely on the disk, and every later change with the number of its operation."""

    durable: bytes
    changes: tuple[tuple[int, Change], ...]


@dataclass(frozen=True, slots=True, eq=False)
class KeptDirectory:
    """A directory: its names as they were synced, and after every later change."""

    versions: tuple[tuple[int, Entries], ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """The moment before operation ``number``, when all earlier ones have been asked for."""

    number: int
    files: Mapping[int, KeptFile]
    directories: Mapping[str, KeptDirectory]
    done: str
    """The operation right before, in words."""
    capacity: int | None
    """Of the disk, as ``SimDisk`` says it."""


@dataclass(frozen=True, slots=True, eq=False)
class Blob:
    """The bytes of a file. ``key``: equal for equal bytes. ``grains``: pieces that hold anything, as SimDisk counts."""

    data: bytes
    key: bytes
    grains: frozenset[int]


@dataclass(frozen=True, slots=True)
class Image:
    """A whole disk without power."""

    directories: Mapping[str, Mapping[str, Blob | None]]
    key: tuple[object, ...]
    """Equal for equal disks."""
    capacity: int | None
    """Of the disk, as ``SimDisk`` says it."""


@dataclass(slots=True)
class _Known:
    """What was seen of a file or directory at the last look."""

    unsynced: Sequence[object]
    """Another object after each sync."""
    count: int
    """How many changes it had."""
    kept: KeptFile | KeptDirectory | None = None


class JournalDisk(SimDisk):
    """``cut`` is called before every operation with what it would leave. A sync in the background takes its time, and
    makes durable what was written when it began.

    It begins empty, or as a power cut left a disk (``image``), or as a process that was killed left it (``killed``):
    all it wrote is there, and what it did not sync is not on the disk yet.
    """

    def __init__(
        self, cut: Callable[[Cut], None] | None = None, image: Image | None = None, killed: Cut | None = None
    ) -> None:
        super().__init__()
        self._cut = cut
        self._made = 0
        self._known: dict[int, tuple[object, _Known]] = {}
        """By id; the object is kept so that its id is not used again."""
        self._numbers: dict[int, int] = {}
        self._done = "nothing"
        self._syncs: deque[Callable[[], None]] = deque()
        if image is not None:
            self._directories = {
                path: _directory({name: None if blob is None else _content(blob) for name, blob in entries.items()})
                for path, entries in image.directories.items()
            }
            self.capacity = image.capacity
        if killed is not None:
            self._go_on(killed)

    def _go_on(self, killed: Cut) -> None:
        contents = {}
        for number, file in killed.files.items():
            moments = [_moment(operation - killed.number) for operation, _ in file.changes]
            content = contents[number] = Content(
                bytearray(), bytearray(file.durable), [change for _, change in file.changes], moments
            )
            now = replace(content, durable=bytearray(file.durable))
            now.settle(self.moment)
            content.data = now.durable
            content.allocated = set(grains_of(bytes(content.data)))
            self._remember(content)
        for path, kept in killed.directories.items():
            states = [
                {name: None if number is None else contents[number] for name, number in entries.items()}
                for _, entries in kept.versions
            ]
            moments = [_moment(operation - killed.number) for operation, _ in kept.versions[1:]]
            directory = self._removed[path] = _Directory(dict(states[-1]), states[0], states[1:], moments)
            self._remember(directory)
        self._directories = {}
        self._reach("/")
        self.capacity = killed.capacity

    def _remember(self, thing: Content | _Directory) -> _Known:
        known = _Known(thing.unsynced, len(thing.unsynced))
        self._known[id(thing)] = (thing, known)
        return known

    def _reach(self, path: str) -> None:
        """Everything below a directory that is there; the others may come back."""
        directory = self._directories[path] = self._removed.pop(path)
        for name, entry in directory.entries.items():
            if entry is None:
                self._reach(os.path.join(path, name))

    def happens(self) -> None:
        super().happens()
        if self._cut is not None:
            self._cut(self.freeze())
            self._made += 1
            self._done = "an operation that changes nothing"

    def freeze(self) -> Cut:
        """Everything as it is now."""
        directories = {
            path: self._keep_directory(path, directory)
            for path, directory in [*self._removed.items(), *self._directories.items()]
        }
        files = {}
        for path, directory in [*self._removed.items(), *self._directories.items()]:
            for entries in [directory.durable, *directory.unsynced]:
                for name, content in entries.items():
                    if content is not None:
                        files[self._number(content)] = self._keep_file(os.path.join(path, name), content)
        return Cut(self._made, files, directories, self._done, self.capacity)

    def sync_later(self, files: Sequence[Syncable], done: Callable[[BaseException | None], None]) -> None:
        self._syncs.append(partial(self._end_syncs, files, self.moment, done))
        if len(self._syncs) == 1:
            asyncio.get_running_loop().call_later(SYNC_S, self._next_sync)

    def _next_sync(self) -> None:
        self._syncs[0]()
        self._syncs.popleft()
        if self._syncs:
            asyncio.get_running_loop().call_later(SYNC_S, self._next_sync)

    def _end_syncs(self, files: Sequence[Syncable], begun: int, done: Callable[[BaseException | None], None]) -> None:
        error = self._synced(files, begun)
        asyncio.get_running_loop().call_soon(done, error)

    def _number(self, content: Content) -> int:
        return self._numbers.setdefault(id(content), len(self._numbers))

    def _look(self, thing: Content | _Directory, name: str) -> _Known:
        """What is known of it, brought up to date: at most one operation has happened since."""
        unsynced: Sequence[object] = thing.unsynced
        _, known = self._known.get(id(thing), (None, None))
        if known is None:
            known = self._remember(thing)
            known.count = 0
        if known.unsynced is not unsynced:
            self._done = f"sync of {name}"
            known = self._remember(thing)
        if known.count < len(unsynced):
            self._done = _in_words(unsynced[-1], name)
            known.count, known.kept = len(unsynced), None
        return known

    def _keep_file(self, path: str, content: Content) -> KeptFile:
        known = self._look(content, path)
        if not isinstance(known.kept, KeptFile):
            changes = zip(map(_operation, content.moments), content.unsynced, strict=True)
            known.kept = KeptFile(bytes(content.durable), tuple(changes))
        return known.kept

    def _keep_directory(self, path: str, directory: _Directory) -> KeptDirectory:
        known = self._look(directory, path)
        if not isinstance(known.kept, KeptDirectory):
            operations = [SYNCED, *map(_operation, directory.moments)]
            states = zip(operations, [directory.durable, *directory.unsynced], strict=True)
            known.kept = KeptDirectory(tuple(
                (operation, {name: None if entry is None else self._number(entry) for name, entry in entries.items()})
                for operation, entries in states
            ))  # fmt: skip
        return known.kept


def _operation(moment: int) -> int:
    """The number of the operation that made a change. The first one has the number 0, and happens at the moment 1."""
    return moment - 1


def _moment(operation: int) -> int:
    return operation + 1


def _in_words(change: object, name: str) -> str:
    if isinstance(change, tuple):
        return f"write of {len(change[1])} bytes at {change[0]} of {name}"
    return f"size of {name} set to {change}" if isinstance(change, int) else f"names in {name} changed"


def _content(blob: Blob) -> Content:
    return Content(bytearray(blob.data), bytearray(blob.data), allocated=set(blob.grains))


def _directory(entries: dict[str, Content | None]) -> _Directory:
    return _Directory(entries, dict(entries))


def grains_of(data: bytes) -> Iterator[int]:
    """The pieces of a file that hold anything but zeros."""
    for at in range(0, len(data), GRAIN):
        if not _ZEROS.startswith(data[at : at + GRAIN]):
            yield at // GRAIN
