"""Which place of which queue a damaged record had: it stays taken, because consumers may have read past it.

Where its queue still has an entry, that says so. Where entries are built again from the log, the record itself is the
only one who knows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gantrymq.protocol.stored_message import MAGIC_V2
from gantrymq.store.records import (
    LARGEST_RECORD_BYTES,
    PLACE_BYTES,
    SMALLEST_RECORD_BYTES,
    body_place,
    has_queue_entry,
    place_of,
)
from gantrymq.store.segmented_file import SegmentedFile

_HEAD: Final = struct.Struct(">4xI4xi4xq8xi")
"""magic, queue id, queue offset, system flag"""
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")


class LostPlace(NamedTuple):
    topic: str
    queue_id: int
    queue_offset: int


def damaged_records(files: SegmentedFile, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(log offset, bytes) of the records between, as far as it can be seen where one ends; they need not be records."""
    at = start
    while at < end:
        size = place_of(files.read(at, PLACE_BYTES))[0]
        following = at + size
        if not SMALLEST_RECORD_BYTES <= size <= end - at or (
            following < end and place_of(files.read(following, PLACE_BYTES))[3] != following
        ):
            following = end
        if following - at <= LARGEST_RECORD_BYTES:
            yield at, files.read(at, following - at)
        at = following


def lost_place(record: bytes, known: Iterable[bytes]) -> LostPlace | None:
    """What a damaged record tells of its place; None when it tells nothing that could be believed, or had none.

    Three lengths say where the topic lies: of the body before it, its own, of the properties behind it. One of them may
    be the damage if the topic is among the ``known``.
    """
    if len(record) < SMALLEST_RECORD_BYTES:
        return None
    magic, queue_id, queue_offset, sys_flag = _HEAD.unpack_from(record)
    if not has_queue_entry(sys_flag) or queue_id < 0 or queue_offset < 0:
        return None
    width = 2 if magic == MAGIC_V2 else 1
    after_body = _after_body(record, sys_flag)
    named = _topic_at(record, after_body, width)
    for topic in (named, *known):
        at = record.find(topic, 88 + width) if topic else -1
        while at >= 0:
            agree = [at == after_body + width, _topic_at(record, at - width, width) == topic]
            agree.append(_properties_end(record, at + len(topic)) == len(record))
            if all(agree) or (agree.count(True) == 2 and topic in known):
                return LostPlace(topic.decode("utf-8", "replace"), queue_id, queue_offset)
            at = record.find(topic, at + 1)
    return None


def _after_body(record: bytes, sys_flag: int) -> int:
    at = body_place(record, 0, sys_flag)
    return at + 4 + int(_INT.unpack_from(record, at)[0]) if at + 4 <= len(record) else -1


def _topic_at(record: bytes, at: int, width: int) -> bytes:
    """The topic whose length lies at ``at``; empty when none does."""
    if not 0 <= at <= len(record) - width:
        return b""
    length = int.from_bytes(record[at : at + width], "big")
    topic = record[at + width : at + width + length]
    return topic if len(topic) == length else b""


def _properties_end(record: bytes, at: int) -> int:
    """Where the properties end whose length lies at ``at``."""
    return at + 2 + int(_SHORT.unpack_from(record, at)[0]) if at + 2 <= len(record) else -1
