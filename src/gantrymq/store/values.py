"""The values that the store accepts and returns."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec


@dataclass(slots=True)
class NewRecord:
    """A record to append. Hosts are packed (``protocol.stored_message.pack_host``), times in ms."""

    topic: str
    queue_id: int
    body: bytes
    properties: str
    """The properties' text."""
    born_timestamp: int
    born_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    tags_code: int | None = None
    """What the queue entry holds; None: the hash of TAGS."""
    store_host: bytes | None = None
    """None: the store's own."""


class Placement(msgspec.Struct, frozen=True):
    """Where a record was put. It is stored once ``MessageStore.safety`` says so."""

    log_offset: int
    size: int
    queue_offset: int
    store_timestamp: int
    data: bytes = b""
    """The record as it is stored."""

    @property
    def end(self) -> int:
        """Log offset behind the record."""
        return self.log_offset + self.size

    def __repr__(self) -> str:
        """Without the record: it may have megabytes."""
        return f"Placement({self.log_offset}, {self.size}, {self.queue_offset}, {self.store_timestamp})"


Prepared: TypeAlias = tuple[str, int, int, int, str, str | None]
"""A record of which all is known but its place; a plain tuple, as one is made for every commit:

topic, queue id, size, tags code, properties text, unique key ("": it has none; None: not known).
"""

Known: TypeAlias = tuple[Any, ...]
EncodePair: TypeAlias = Callable[[Known, int, int, int, int, int, bytes], bytes]
"""Makes two records, end to end, of (what is known of them, queue offset and log offset of the first, those of the
second, store timestamp in ms, store host)."""


class GetStatus(enum.Enum):
    """Source: org.apache.rocketmq.store.GetMessageStatus."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


@dataclass(slots=True)
class GetResult:
    """Answer of ``MessageStore.get``; offsets are queue offsets."""

    status: GetStatus
    next_offset: int
    """The offset at which the next read continues."""
    min_offset: int
    max_offset: int
    count: int = 0
    data: bytes = b""
    """Records end to end."""


class Boundary(enum.Enum):
    """Which message a time names. Source: BoundaryType."""

    LOWER = "lower"
    """The first one stored at or after it."""
    UPPER = "upper"
    """The last one stored at or before it."""
