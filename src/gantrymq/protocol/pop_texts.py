"""The texts in the answer to a pop from which a client builds receipt handles. Source: ExtraInfoUtil."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
