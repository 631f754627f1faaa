"""The queue offset of a damaged record. It stays occupied, because consumers may have read beyond it.

If the queue still has an entry for the record, the entry says where the record belongs. If entries are rebuilt from
the log, only the record itself can say it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gantrymq.errors import MessageIllegal
from gantrymq.message.sizes import LARGEST_RECORD_BYTES, SMALLEST_RECORD_BYTES
from gantrymq.message.system_topics import check_topic
from gantrymq.protocol.stored_message import MAGIC_V2
from gantrymq.store.files.segmented_file import SegmentedFile
from gantrymq.store.log.records import PLACE_BYTES, body_place, has_queue_entry, place_of

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
    """The queue and the offset of a damaged record; None when it contains none, or none that can be believed.

    Three lengths show where the topic is: that of the body before it, its own, and that of the properties behind it.
    One of them may be damaged if the topic is among the ``known``, or if one wrong byte explains everything.
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
            if agree.count(True) >= 2 if topic in known else all(agree) and _is_name(topic):
                return LostPlace(topic.decode(), queue_id, queue_offset)
            at = record.find(topic, at + 1)
    topic = _topic_if_one_byte_is_wrong(record, body_place(record, 0, sys_flag), after_body, width)
    return LostPlace(topic.decode(), queue_id, queue_offset) if topic else None


def _topic_if_one_byte_is_wrong(record: bytes, body_at: int, after_body: int, width: int) -> bytes:
    """The legal topic with which the record's parts add up when one byte of one length is another one. Of several
    explanations the one that needs one bit only counts; empty when there is none, or no such one."""
    found: dict[bytes, int] = {}

    def take(topic_at: int, length: int, bits: int) -> None:
        topic = record[topic_at : topic_at + length]
        if _is_name(topic):
            found[topic] = min(bits, found.get(topic, bits))

    for length, bits in _one_byte_off(record, body_at, 4):
        after = body_at + 4 + length
        topic = _topic_at(record, after, width)
        if topic and _properties_end(record, after + width + len(topic)) == len(record):
            take(after + width, len(topic), bits)
    for length, bits in _one_byte_off(record, after_body, width):
        if _properties_end(record, after_body + width + length) == len(record):
            take(after_body + width, length, bits)
    topic = _topic_at(record, after_body, width)
    behind = after_body + width + len(topic)
    for length, bits in _one_byte_off(record, behind, 2):
        if topic and behind + 2 + length == len(record):
            take(after_body + width, len(topic), bits)
    likely = [topic for topic, bits in found.items() if bits == 1 or len(found) == 1]
    return likely[0] if len(likely) == 1 else b""


def _is_name(topic: bytes) -> bool:
    try:
        check_topic(topic.decode("latin-1"))
    except MessageIllegal:
        return False
    return True


def _one_byte_off(record: bytes, at: int, size: int) -> Iterator[tuple[int, int]]:
    """The numbers that differ in one byte from the one at ``at`` and fit into the record, and in how many bits."""
    number = int.from_bytes(record[at : at + size], "big") if 0 <= at <= len(record) - size else None
    for shift in range(0, 8 * size, 8):
        for wrong in range(1, 256):
            if number is not None and number ^ wrong << shift <= len(record):
                yield number ^ wrong << shift, wrong.bit_count()


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
