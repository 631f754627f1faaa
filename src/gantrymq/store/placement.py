"""Where the log has put a record."""

from __future__ import annotations

import msgspec


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
