"""What consumers ask of POP, and what they get; which topics the messages lie in."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec

from gantrymq.broker.filtering.selection import EVERYTHING, Selection
from gantrymq.broker.refusal import Refused
from gantrymq.errors import CorruptRecord, StoreError
from gantrymq.message import properties
from gantrymq.message.receipt_handle import NORMAL, ReceiptHandle, kind_of
from gantrymq.protocol.stored_message import (
    AT_LOG_OFFSET,
    AT_QUEUE_ID,
    AT_QUEUE_OFFSET,
    FIXED_SIZE,
    birth_of,
    encode_record,
    place_of,
    scan,
)
from gantrymq.store.queues.multi_dispatch import NUMBER, further_places

MAX_COUNT: Final = 32
"""Messages of one pop."""
MAX_INVISIBLE_MS: Final = 7 * 24 * 3600 * 1000
"""A message that is invisible for longer could be gone when its time has come."""


@dataclass(frozen=True, slots=True)
class PopRequest:
    """Messages for a consumer group, which are invisible to its other members for a time."""

    group: str
    topic: str
    queue_id: int
    """-1: any."""
    count: int
    invisible_ms: int
    poll_ms: int
    """How long the request may be held, from ``born_ms`` on."""
    born_ms: int
    """ms since 1970 by the client's clock; 0: not known."""
    from_start: bool
    """Where a group begins that never read a queue."""
    expression: str | None = None
    expression_type: str | None = None
    order: bool = False
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True)
class NotificationRequest:
    """Is there something to pop, now or within ``poll_ms``? The fields mean what they mean in ``PopRequest``."""

    group: str
    topic: str
    queue_id: int
    poll_ms: int
    born_ms: int
    order: bool = False
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True)
class Notified:
    """The answer to a ``NotificationRequest``."""

    has_message: bool
    polling_full: bool = False
    """So many requests are held that this one was not."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pop takes from the queues."""

    group: str
    topic: str
    queue_id: int
    """-1: any."""
    count: int
    invisible_time: int
    """ms"""
    from_start: bool = True
    """Where a group begins that never read a queue."""
    selection: Selection = EVERYTHING
    order: bool = False
    attempt_id: str | None = None
    queues: tuple[str, ...] | None = None
    """The queues of lite topics that are read, in this order; None: those of the topic."""

    def of_queues(self, queues: tuple[str, ...]) -> Wanted:
        """The same of the queues of these lite topics."""
        return replace(self, queues=queues)


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


@dataclass(slots=True)
class Popped:
    """What one pop took."""

    pop_time: int
    """ms since 1970"""
    revive_queue: int
    rest: int = 0
    """Messages left in the queues that were looked at."""
    batches: list[Batch] = field(default_factory=list)
    passed_over: bool = False
    """Messages were skipped that the consumer does not want, and there may be others behind them."""
    blocked_until: int | None = None
    """Orderly: when a queue that is closed now opens, by the steady time."""
    now_ms: int = 0
    """``pop_time`` by the steady time."""

    @property
    def count(self) -> int:
        return sum(len(batch.offsets) for batch in self.batches)


Given: TypeAlias = Callable[[Popped, StoreError | None], None]
"""Called when the check points of what was popped are durable; with an error nothing may be handed out."""


class PopStatus(enum.Enum):
    """Source: org.apache.rocketmq.client.consumer.PopStatus."""

    FOUND = "There are messages."
    POLLING_FULL = "There is nothing, and so many requests are held that this one was not."
    POLLING_NOT_FOUND = "There was nothing for as long as the request could wait."


@dataclass(frozen=True, slots=True)
class PopResult:
    """The outcome of a pop."""

    status: PopStatus
    popped: Popped


PopDone: TypeAlias = Callable[[PopResult | Refused], None]
NotificationDone: TypeAlias = Callable[[Notified], None]


class PopDelivery(msgspec.Struct, frozen=True):
    """One message that a pop gave to a consumer, as the consumer names it.

    ``msgspec.Struct``: one is made for every acknowledgement, in a tenth of the time of a frozen dataclass.
    """

    group: str
    topic: str
    """The one the message lies in: the retry topic for a retried one."""
    queue_id: int
    offset: int
    receipt_handle: str
    """See ``message.receipt_handle``."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The parts of the receipt handle that a change of the invisible time makes new."""

    pop_time: int
    invisible_time: int
    """ms"""
    revive_queue: int


AckDone: TypeAlias = Callable[[Refused | None], None]
"""Called when the acknowledgement is durable, or has failed."""
RenewDone: TypeAlias = Callable[[Renewed | Refused], None]


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


def with_places_in(queue: str, data: bytes) -> bytes:
    """Records of a lite topic end to end, each with its queue offset there: the record says that of its topic, and the
    further ones in its properties. Those without a place there are left out. Raises RemoteProtocolError."""
    found, kept = bytearray(data), bytearray()
    at = 0
    for message in scan(data):
        number = dict(further_places(message.properties_text)).get(queue)
        if number is not None:
            found[at + AT_QUEUE_ID : at + AT_QUEUE_ID + 4] = NUMBER.to_bytes(4, "big")
            found[at + AT_QUEUE_OFFSET : at + AT_QUEUE_OFFSET + 8] = number.to_bytes(8, "big")
            kept += found[at : at + message.size]
        at += message.size
    return bytes(kept)


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
