"""The texts in the answer to a pop from which a client builds receipt handles. Source: ExtraInfoUtil."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gantrymq.errors import RemoteProtocolError


def start_offset_info(batches: Iterable[tuple[str, int, int]]) -> str:
    """(kind, queue id, first offset) of each batch."""
    return ";".join(f"{kind} {queue_id} {start}" for kind, queue_id, start in batches)


def message_offset_info(batches: Iterable[tuple[str, int, Sequence[int]]]) -> str:
    """(kind, queue id, offsets) of each batch."""
    return ";".join(f"{kind} {queue_id} {','.join(map(str, offsets))}" for kind, queue_id, offsets in batches)


def order_count_info(batches: Iterable[tuple[str, int, Sequence[int], dict[int, int]]]) -> str:
    """(kind, queue id, offsets, offset to earlier deliveries) of each orderly batch.

    Each repeated message has an item of its own. The item of the queue, with the lowest count, is for older clients.
    """
    items: list[str] = []
    for kind, queue_id, offsets, counts in batches:
        items += [f"{kind} qo{queue_id}%{offset} {count}" for offset, count in counts.items()]
        least = min(counts.values()) if counts and len(counts) == len(offsets) else 0
        items.append(f"{kind} {queue_id} {least}")
    return ";".join(items)


def lite_order_counts(batches: Iterable[tuple[Sequence[int], dict[int, int]]]) -> str:
    """(offsets, offset to earlier deliveries) of each batch of a lite topic: a number for each message, in order."""
    return ";".join(str(counts.get(offset, 0)) for offsets, counts in batches for offset in offsets)


def read_lite_order_counts(text: str | None) -> list[int]:
    """The numbers of ``lite_order_counts``; what is not read counts as none."""
    return [int(item) if item.isascii() and item.isdecimal() else 0 for item in (text or "").split(";")]


def read_starts(text: str | None) -> dict[tuple[str, int], int]:
    """(kind, queue id) to the first offset, of a ``start_offset_info``. Raises RemoteProtocolError."""
    starts: dict[tuple[str, int], int] = {}
    for item in (text or "").split(";"):
        fields = item.split(" ")
        if len(fields) == 3 and fields[1].isdigit() and fields[2].isdigit():
            starts[fields[0], int(fields[1])] = int(fields[2])
        elif item:
            raise RemoteProtocolError(f"{item[:100]!r} is not the start of a batch of popped messages")
    return starts


def read_order_counts(text: str | None) -> dict[tuple[int, int], int]:
    """(queue id, offset) to earlier deliveries, of an ``order_count_info``; what is not read counts as none."""
    counts: dict[tuple[int, int], int] = {}
    for item in (text or "").split(";"):
        queue, _, offset = item.partition("%")
        place, _, count = offset.partition(" ")
        number = queue.rpartition("qo")[2]
        if number.isdigit() and place.isdigit() and count.isdigit():
            counts[int(number), int(place)] = int(count)
    return counts
