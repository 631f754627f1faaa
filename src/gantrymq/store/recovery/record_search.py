"""Finds intact records in a log that is damaged: where there is one, and where the next one begins."""

from __future__ import annotations

from typing import Final

from gantrymq.errors import CorruptRecord
from gantrymq.protocol.stored_message import MAGIC_V1, MAGIC_V2
from gantrymq.store.files.checkpoint import HEAD_BYTES
from gantrymq.store.files.segment import Segment
from gantrymq.store.files.segmented_file import SegmentedFile
from gantrymq.store.log.records import CHUNK_BYTES, LogWalk, parse

_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))


class RecordSearch:
    """Looks into the files of the log."""

    def __init__(self, files: SegmentedFile, file_size: int) -> None:
        """``file_size``: of a file of the log, which no record exceeds."""
        self._files = files
        self._file_size = file_size

    def size_at(self, position: int) -> int:
        """Size of the good record at ``position``; 0 when there is none."""
        for _place, parsed, _data, _at in LogWalk(self._files, position, self._files.end):
            return parsed[0]
        return 0

    def next_behind(self, bad: int) -> int | None:
        """The next intact record behind the bad place."""
        size = int.from_bytes(self._files.read(bad, 4), "big")
        if 0 < size < self._file_size and self.size_at(bad + size):
            return bad + size
        segment = self._files.segment(bad)
        position: int | None = bad + 1
        while segment is not None:
            if position is not None:
                position = self._search(segment, position)
                if position is not None:
                    return position
            segment = self._files.segment(segment.end)
            position = segment.next_nonzero(segment.base) if segment is not None else None
        return None

    def _search(self, segment: Segment, position: int) -> int | None:
        """First intact record at or behind ``position`` in one file, found by its magic and its own offset."""
        at: int | None = segment.next_nonzero(position)
        while at is not None and at < segment.end:
            at = max(position, at - 3)  # a size field begins with zeros
            data = segment.read(at, CHUNK_BYTES + HEAD_BYTES)
            for place in _magic_places(data):
                if place >= 4 and self._is_record(at + place - 4):
                    return at + place - 4
            position = at + CHUNK_BYTES
            at = segment.next_nonzero(position) if position < segment.end else None
        return None

    def _is_record(self, position: int) -> bool:
        size = int.from_bytes(self._files.read(position, 4), "big")
        if size > self._file_size:
            return False
        try:
            parse(self._files.read(position, size), 0, position)
        except CorruptRecord:
            return False
        return True


def _magic_places(data: bytes) -> list[int]:
    """Where in ``data`` a magic lies, in order."""
    places = []
    for magic in _MAGICS:
        at = data.find(magic)
        while at >= 0:
            places.append(at)
            at = data.find(magic, at + 1)
    return sorted(places)
