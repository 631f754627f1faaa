"""The messages of one queue that one pop hands out."""

from __future__ import annotations

from dataclasses import dataclass, field

from gantrymq.broker.pop.names import kind_of
from gantrymq.errors import CorruptRecord
from gantrymq.message import properties
from gantrymq.message.receipt_handle import NORMAL, ReceiptHandle
from gantrymq.protocol.stored_message import (
    AT_LOG_OFFSET,
    AT_QUEUE_OFFSET,
    FIXED_SIZE,
    birth_of,
    encode_record,
    place_of,
    scan,
)


@dataclass(slots=True)
class Batch:
    """``data``: records end to end, as stored."""

    topic: str
    queue_id: int
    start_offset: int
    """Where the pop began; what lies between this and the first message was not wanted."""
    next_offset: int
    offsets: list[int]
    data: bytes
    counts: dict[int, int] = field(default_factory=dict)
    """Orderly: offset to earlier deliveries."""

    @property
    def kind(self) -> str:
        return kind_of(self.topic)


def queue_offsets(data: bytes) -> list[int]:
    """Of the records in ``data``. CorruptRecord when one was damaged since this process wrote it."""
    found: list[int] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size < FIXED_SIZE:
            lies_at = int.from_bytes(data[at + AT_LOG_OFFSET : at + AT_LOG_OFFSET + 8], "big")
            raise CorruptRecord(lies_at, f"it claims to have {size} bytes")
        place = at + AT_QUEUE_OFFSET
        found.append(int.from_bytes(data[place : place + 8], "big"))
        at += size
    return found


def as_first_sent(
    batch: Batch, topic: str, pop_time: int, invisible_time: int, revive_queue: int, broker_name: str
) -> bytes:
    """The records of a retry topic under the topic they were sent to, each with its receipt handle.

    A client finds the handle of other messages by topic and queue, which these do not tell any more.
    """
    if batch.kind == NORMAL:
        return batch.data
    records: list[bytes] = []
    for message in scan(batch.data):
        text = message.properties_text
        if properties.find(text, properties.POP_CHECK_POINT) is None:
            handle = ReceiptHandle(
                batch.start_offset, pop_time, invisible_time, revive_queue, batch.kind, broker_name,
                message.queue_id, message.queue_offset,
            )  # fmt: skip
            text = properties.append(text, f"{properties.POP_CHECK_POINT}\x01{handle}\x02")
        records.append(
            encode_record(
                topic.encode(),
                message.body,
                text.encode(),
                place_of(message),
                birth_of(message),
                message.prepared_transaction_offset,
            )
        )
    return b"".join(records)
