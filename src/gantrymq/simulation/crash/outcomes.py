"""What a power cut may leave of a disk, as the product of independent choices, and which of them are tried.

The model. Of each sector of a file the disk holds one of the contents it had since the file's last sync; sectors do not
wait for each other. A file has one of the sizes it had since then; what lies behind it is gone, what was never written
reads as zeros. Of the names in a directory a beginning of the changes since its last sync is there, in order;
directories do not wait for each other, nor for files. What was synced is there.

A *choice* is the number of a version for each thing that has several (an axis), the oldest being 0.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import product
from typing import TypeAlias

from gantrymq.simulation.crash.journal import SYNCED, Blob, Cut, Entries, Image, KeptFile, grains_of

Choice: TypeAlias = tuple[int, ...]

ALL = "all combinations"
IN_ORDER = "in order"
TORN = "torn"
ONE_MISSING = "one missing"
ONE_ALONE = "one alone"
ONE_OWNER = "one file early or late"
SAMPLED = "sampled"


@dataclass(frozen=True, slots=True)
class Effort:
    """How many outcomes are tried where there are too many to try all."""

    all_up_to: int = 64
    """Cuts with so many combinations are tried in every one."""
    kinds: tuple[str, ...] = (IN_ORDER, TORN, ONE_OWNER, ONE_MISSING, ONE_ALONE)
    """Of the other cuts these are tried."""
    sampled: int = 8
    """And so many more, drawn by chance."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Axis:
    """Something that may be there in one of several versions. ``operations``: that made them."""

    owner: str
    sector: int
    """-1: the size of a file, or the names in a directory."""
    operations: tuple[int, ...]

    def at(self, operation: int) -> int:
        """The version it has right after an operation."""
        return sum(made <= operation for made in self.operations) - 1


class FileVersions:
    """Everything one file may be."""

    def __init__(self, kept: KeptFile, sector_bytes: int) -> None:
        self._durable = kept.durable
        self._sector = sector_bytes
        self.sizes: list[tuple[int, int]] = [(SYNCED, len(kept.durable))]
        self.sectors: dict[int, list[tuple[int, bytes]]] = {}
        data = bytearray(kept.durable)
        for operation, change in kept.changes:
            if isinstance(change, int):
                first, end = change, len(data)
                data[change:] = bytes(max(0, change - len(data)))
            else:
                first, end = change[0], change[0] + len(change[1])
                data.extend(bytes(max(0, end - len(data))))
                data[first:end] = change[1]
            if len(data) != self.sizes[-1][1]:
                self.sizes.append((operation, len(data)))
            for sector in range(first // sector_bytes, -(-end // sector_bytes)):
                self._note(sector, operation, data)
        self.sectors = {number: versions for number, versions in sorted(self.sectors.items()) if len(versions) > 1}
        self._made: dict[Choice, Blob] = {}

    def _note(self, sector: int, operation: int, data: bytearray) -> None:
        versions = self.sectors.setdefault(sector, [(SYNCED, self._cell(self._durable, sector))])
        cell = self._cell(data, sector)
        if cell != versions[-1][1]:
            versions.append((operation, cell))

    def _cell(self, data: bytes | bytearray, sector: int) -> bytes:
        return bytes(data[sector * self._sector : (sector + 1) * self._sector]).ljust(self._sector, b"\0")

    def axes(self, owner: str) -> Iterator[Axis]:
        """In the order of a choice for this file; a file without changes has none."""
        if len(self.sizes) > 1:
            yield Axis(owner, -1, tuple(operation for operation, _ in self.sizes))
        for sector, versions in self.sectors.items():
            yield Axis(owner, sector, tuple(operation for operation, _ in versions))

    def blob(self, choice: Choice) -> Blob:
        """The file by a choice, in the order of ``axes``."""
        made = self._made.get(choice)
        if made is None:
            made = self._made[choice] = self._make(choice)
        return made

    def _make(self, choice: Choice) -> Blob:
        numbers = iter(choice)
        size = self.sizes[next(numbers)][1] if len(self.sizes) > 1 else self.sizes[0][1]
        data = bytearray(self._durable[:size].ljust(size, b"\0"))
        for (sector, versions), number in zip(self.sectors.items(), numbers, strict=True):
            start = sector * self._sector
            data[start : start + self._sector] = versions[number][1][: max(0, size - start)]
        whole = bytes(data)
        return Blob(whole, blake2b(whole, digest_size=16).digest(), frozenset(grains_of(whole)))


class Versions:
    """``FileVersions`` of the files of many cuts, each made once."""

    def __init__(self, sector_bytes: int) -> None:
        self.sector_bytes = sector_bytes
        self._made: dict[int, tuple[KeptFile, FileVersions]] = {}

    def of(self, kept: KeptFile) -> FileVersions:
        known = self._made.get(id(kept))
        if known is None:
            known = self._made[id(kept)] = (kept, FileVersions(kept, self.sector_bytes))
        return known[1]


class Space:
    """All outcomes of one cut."""

    def __init__(self, cut: Cut, versions: Versions) -> None:
        self.cut = cut
        self._files = {number: versions.of(kept) for number, kept in cut.files.items()}
        self.axes: list[Axis] = []
        self._directory_axis: dict[str, int] = {}
        self._file_axes: dict[int, slice] = {}
        for path, directory in cut.directories.items():
            if len(directory.versions) > 1:
                self._directory_axis[path] = len(self.axes)
                self.axes.append(Axis(path, -1, tuple(operation for operation, _ in directory.versions)))
        for number, file in self._files.items():
            first = len(self.axes)
            self.axes.extend(file.axes(str(number)))
            self._file_axes[number] = slice(first, len(self.axes))

    @cached_property
    def combinations(self) -> int:
        """How many outcomes there are."""
        return math.prod(len(axis.operations) for axis in self.axes)

    @cached_property
    def newest(self) -> Choice:
        """Everything arrived: what a killed process leaves."""
        return tuple(len(axis.operations) - 1 for axis in self.axes)

    def image(self, choice: Choice) -> Image:
        """The disk by a choice."""
        directories: dict[str, dict[str, Blob | None]] = {}
        key: list[object] = [self.cut.capacity]
        self._walk("/", choice, directories, key)
        return Image(directories, tuple(key), self.cut.capacity)

    def _walk(
        self, path: str, choice: Choice, directories: dict[str, dict[str, Blob | None]], key: list[object]
    ) -> None:
        axis = self._directory_axis.get(path)
        entries: Entries = self.cut.directories[path].versions[0 if axis is None else choice[axis]][1]
        made = directories[path] = {}
        for name in sorted(entries):
            number = entries[name]
            key.append((path, name))
            if number is None:
                made[name] = None
                self._walk(os.path.join(path, name), choice, directories, key)
            else:
                blob = made[name] = self._files[number].blob(choice[self._file_axes[number]])
                key.append(blob.key)

    # ---- which are tried

    def choices(self, effort: Effort) -> dict[Choice, str]:
        """The outcomes that are tried, in a fixed order, and why each of them is."""
        tried: dict[Choice, str] = {}
        if self.combinations <= effort.all_up_to:
            return dict.fromkeys(product(*(range(len(axis.operations)) for axis in self.axes)), ALL)
        makers: dict[str, Callable[[], Iterator[Choice]]] = {
            IN_ORDER: self._in_order, TORN: self._torn, ONE_OWNER: self._by_owner,
            ONE_MISSING: lambda: self._deviations(self.newest),
            ONE_ALONE: lambda: self._deviations((0,) * len(self.axes)),
            SAMPLED: lambda: self._sampled(effort),
        }  # fmt: skip
        for kind in (*effort.kinds, SAMPLED):
            for choice in makers[kind]():
                tried.setdefault(choice, kind)
        return tried

    @cached_property
    def _operations(self) -> list[int]:
        return sorted({operation for axis in self.axes for operation in axis.operations})

    def _until(self, operation: int) -> Choice:
        return tuple(axis.at(operation) for axis in self.axes)

    def _in_order(self) -> Iterator[Choice]:
        """Everything up to an operation, nothing behind it."""
        yield from map(self._until, reversed(self._operations))

    def _torn(self) -> Iterator[Choice]:
        """The same, with only a beginning or only an end of the last write, cut at each border of a sector."""
        for operation in reversed(self._operations[1:]):
            after = self._until(operation)
            changed = [number for number, axis in enumerate(self.axes) if operation in axis.operations]
            for count in range(1, len(changed)):
                for late in (changed[count:], changed[:count]):
                    yield tuple(version - (number in late) for number, version in enumerate(after))

    def _by_owner(self) -> Iterator[Choice]:
        """One file (or the names in one directory) arrived and nothing else did, or the other way round."""
        for owner in dict.fromkeys(axis.owner for axis in self.axes):
            yield tuple(last * (axis.owner == owner) for axis, last in zip(self.axes, self.newest, strict=True))
            yield tuple(last * (axis.owner != owner) for axis, last in zip(self.axes, self.newest, strict=True))

    def _deviations(self, choice: Choice) -> Iterator[Choice]:
        """Everything as in ``choice``, but one thing in another version."""
        for number, axis in enumerate(self.axes):
            for version in range(len(axis.operations)):
                yield (*choice[:number], version, *choice[number + 1 :])

    def _sampled(self, effort: Effort) -> Iterator[Choice]:
        rng = random.Random(effort.seed * 1_000_003 + self.cut.number)
        for _ in range(effort.sampled):
            yield tuple(rng.randrange(len(axis.operations)) for axis in self.axes)
