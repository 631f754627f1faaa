"""The result that the sender of a message gets."""

from __future__ import annotations

import msgspec

from gantrymq.message.send_status import SendStatus


class Stored(msgspec.Struct, frozen=True):
    """Where a message was stored, and how safely."""

    log_offset: int
    queue_offset: int
    queue_id: int
    unique_key: str
    recall_handle: str | None = None
    """Of a timer message: with it the sender can withdraw the message."""
    status: SendStatus = SendStatus.SEND_OK
