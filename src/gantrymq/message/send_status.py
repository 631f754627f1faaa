"""The status in the answer to a send: how safely the message was stored."""

from __future__ import annotations

import enum


class SendStatus(enum.Enum):
    """How safely a message was stored. In every case it *is* stored. Source: SendStatus; docs/protocol.md#sending."""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    """The disk of the broker did not confirm it in time."""
    SLAVE_NOT_AVAILABLE = 11
    """The broker is configured for a replica, and there is none."""
    FLUSH_SLAVE_TIMEOUT = 12
    """The replica did not confirm it in time."""
