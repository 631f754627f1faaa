"""A half message that a broker has stored, and that waits for its end. A value."""

from __future__ import annotations

import msgspec

from gantrymq.client.results import SendResult
from gantrymq.message.message import Message


class SentHalf(msgspec.Struct, frozen=True):
    """A half message that is stored and waits for its end."""

    given: Message
    """What the listener gets: a copy of the message that was given to us, with its ``transaction_id``."""
    message: Message
    """The same as brokers know it."""
    result: SendResult
    log_offset: int

    @property
    def transaction_id(self) -> str:
        return self.result.message_id
