"""Files of one size that together form one range of offsets. Source: MappedFileQueue."""

from __future__ import annotations

import itertools
import os

from gantrymq.errors import StoreFormatUnknown, invariant
from gantrymq.runtime.disk import Disk
from gantrymq.store.files.segment import OpenFiles, Segment, segment_name


def list_segments(disk: Disk, directory: str, size: int, key: str) -> list[int]:
    """First positions of the segments in a directory, checked but not changed.

    An empty last file is left out: it is what a crash leaves of a file that was just being made.
    Raises StoreFormatUnknown when a name, a size or the sequence does not fit; ``key`` is the setting of the size.
    """
    names = [name for name in disk.list(directory) if not name.startswith(".")]
    bases = []
    for name in names:
        path = os.path.join(directory, name)
        if len(name) != 20 or not name.isdigit() or disk.is_dir(path):
            raise StoreFormatUnknown(f"{path} is no file of a RocketMQ store; move it away if it does not belong here")
        found = disk.size(path)
        if found == 0 and name == names[-1]:
            continue
        if found != size:
            raise StoreFormatUnknown(
                f"{path} has {found} bytes, but {key} is {size}; open this store with {key}={found}, "
                "the size it was made with"
            )
        bases.append(int(name))
    for before, after in itertools.pairwise(bases):
        if after - before != size:
            raise StoreFormatUnknown(
                f"{directory} lacks the file {segment_name(before + size)} between its neighbours; "
                "put it back from a copy of the store"
            )
    if bases and bases[0] % size:
        raise StoreFormatUnknown(
            f"{os.path.join(directory, segment_name(bases[0]))} does not start at a multiple of {key}={size}; "
            f"open this store with the {key} it was made with"
        )
    return bases


class SegmentedFile:
    """Ordered segments. Positions are bytes of the whole sequence; it may start behind zero.

    ``durable``: whether a new file is on the disk before it is used. What can be derived again need not wait.
    """

    def __init__(
        self, files: OpenFiles, directory: str, segment_size: int, bases: list[int], *, durable: bool = False
    ) -> None:
        self._files = files
        self._durable = durable
        self.directory = directory
        self.segment_size = segment_size
        self.segments = [Segment(files, directory, base, segment_size) for base in bases]

    @property
    def start(self) -> int:
        """First position that exists; 0 when there is no file."""
        return self.segments[0].base if self.segments else 0

    @property
    def end(self) -> int:
        """Position behind the last file; 0 when there is none."""
        return self.segments[-1].end if self.segments else 0

    def segment(self, position: int) -> Segment | None:
        """The segment that holds ``position``."""
        if not self.segments:
            return None
        number = (position - self.segments[0].base) // self.segment_size
        return self.segments[number] if 0 <= number < len(self.segments) else None

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``position`` on; shorter where the files end."""
        segment = self.segment(position)
        if segment is None:
            return b""
        if position + size <= segment.end:
            return segment.read(position, size)
        parts = []
        while size > 0 and segment is not None:
            part = segment.read(position, size)
            if not part:
                break  # somebody has cut the file off
            parts.append(part)
            position += len(part)
            size -= len(part)
            segment = self.segment(position)
        return b"".join(parts)

    def grow(self) -> Segment:
        """Add the next file. Raises DiskFull; then nothing has changed."""
        return self._add(self.end)

    def begin(self, base: int) -> Segment:
        """Make the first file, at a multiple of the segment size."""
        invariant(not self.segments and base % self.segment_size == 0, "a sequence begins once, at a file boundary")
        return self._add(base)

    def _add(self, base: int) -> Segment:
        segment = Segment(self._files, self.directory, base, self.segment_size)
        self._files.disk.make_dirs(self.directory, durable=self._durable)
        if self.segments:
            # Never a file behind one that a crash could still take away: there would be a gap between the files.
            self.segments[-1].file.sync()
        segment.create(durable=self._durable or bool(self.segments))
        self.segments.append(segment)
        return segment

    def write(self, position: int, data: bytes) -> list[Segment]:
        """Write over existing and, at the end, new files; the segments touched. Raises DiskFull."""
        touched = []
        at = 0
        while at < len(data):
            segment = self.segment(position + at)
            if segment is None:
                invariant(position + at == self.end, "a sequence grows at its end only")
                segment = self.grow()
            room = segment.end - position - at
            segment.write(position + at, data[at : at + room] if at or room < len(data) else data)
            touched.append(segment)
            at += room
        return touched

    def zero_from(self, position: int) -> int:
        """Make everything from ``position`` on zero, and remove files behind that held anything.

        The number of bytes that had to be zeroed, files removed counted whole. The caller syncs.
        """
        zeroed = 0
        for number in range(len(self.segments) - 1, -1, -1):
            segment = self.segments[number]
            if segment.end <= position:
                break
            if segment.base <= position:
                zeroed += segment.zero(position)
            elif segment.next_nonzero(segment.base) is not None:
                for later in self.segments[number:]:
                    later.remove()
                    zeroed += later.size
                del self.segments[number:]
        return zeroed

    def drop_before(self, position: int) -> int:
        """Remove the files that end at or before ``position``, but never the last one; how many."""
        dropped = 0
        while len(self.segments) > 1 and self.segments[0].end <= position:
            self.segments.pop(0).remove()
            dropped += 1
        return dropped

    def sync_directory(self) -> None:
        """Make creations and removals of files durable."""
        self._files.disk.sync_dir(self.directory)
