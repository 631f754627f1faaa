"""The receipt handle, which identifies one delivery of a popped message: ``extraInfo`` in requests, the property
POP_CK, and the receipt handle of gRPC.

Fields, separated by blanks: start offset of the batch, pop time (ms), invisible time (ms), revive queue, kind of topic
(0 normal, 1 retry, 2 retry in the newer naming), broker name, queue id, queue offset of the message. A client builds it
from texts in the answer to a pop, which are made here, too. Source: ExtraInfoUtil; docs/protocol.md#pop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gantrymq.errors import RemoteProtocolError

ORDERLY: Final = 999
"""The revive queue in handles of an orderly pop, which has no check point."""
NORMAL: Final = "0"
RETRY: Final = "1"
RETRY_V2: Final = "2"
_FIELDS_LEAST: Final = 7


@dataclass(frozen=True, slots=True)
class ReceiptHandle:
    """The fields of a receipt handle. ``offset``: -1 when the text does not contain it."""

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue: int
    kind: str
    broker_name: str
    queue_id: int
    offset: int = -1

    @property
    def orderly(self) -> bool:
        return self.revive_queue == ORDERLY

    @property
    def visible_at(self) -> int:
        """When the message becomes visible again, in ms since 1970."""
        return self.pop_time + self.invisible_time

    def __str__(self) -> str:
        return (
            f"{self.start_offset} {self.pop_time} {self.invisible_time} {self.revive_queue} {self.kind} "
            f"{self.broker_name} {self.queue_id} {self.offset}"
        )


def parse(text: str) -> ReceiptHandle:
    """Read a handle. Raises RemoteProtocolError when the text is not a handle."""
    fields = text.split(" ")
    if len(fields) < _FIELDS_LEAST:
        raise RemoteProtocolError(f"{text!r} is not a receipt handle: it has {len(fields)} fields of {_FIELDS_LEAST}")
    start, popped, invisible, revive_queue, kind, broker, queue_id, *rest = fields
    try:
        return ReceiptHandle(
            int(start), int(popped), int(invisible), int(revive_queue), kind, broker, int(queue_id),
            int(rest[0]) if rest else -1,
        )  # fmt: skip
    except ValueError as error:
        raise RemoteProtocolError(f"{text!r} is no receipt handle: {error}") from error


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
