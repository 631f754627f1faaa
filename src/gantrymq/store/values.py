"""The values that the store accepts and returns."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gantrymq.store.placement import Placement as Placement


@dataclass(slots=True, init=False)
class NewRecord:
    """A record to append. Hosts are packed (``protocol.stored_message.pack_host``), times in ms."""

    topic: str
    queue_id: int
    body: bytes
    properties: str
    """The properties' text."""
    born_timestamp: int
    born_host: bytes
    flag: int
    sys_flag: int
    reconsume_times: int
    prepared_transaction_offset: int
    tags_code: int | None
    """What the queue entry holds; None: the hash of TAGS."""
    store_host: bytes | None
    """None: the store's own."""

    # Written out, because the one that dataclass makes stays Python in a compiled class.
    def __init__(
        self, topic: str, queue_id: int, body: bytes, properties: str, born_timestamp: int, born_host: bytes,
        flag: int = 0, sys_flag: int = 0, reconsume_times: int = 0, prepared_transaction_offset: int = 0,
        tags_code: int | None = None, store_host: bytes | None = None,
    ) -> None:  # fmt: skip
        self.topic = topic
        self.queue_id = queue_id
        self.body = body
        self.properties = properties
        self.born_timestamp = born_timestamp
        self.born_host = born_host
        self.flag = flag
        self.sys_flag = sys_flag
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset
        self.tags_code = tags_code
        self.store_host = store_host


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
