"""A request to end a transaction, independent of any protocol."""

from __future__ import annotations

from msgspec import Struct

from gantrymq.broker.client import Operator
from gantrymq.message.transaction import Resolution


class EndRequest(Struct, frozen=True, gc=False):
    """Which half message is to be ended, and how. One is made for every transaction: a struct costs a tenth of a
    dataclass."""

    group: str
    """The producer group that the client speaks for."""
    queue_offset: int
    """Of the half, in the half queue."""
    log_offset: int
    """Of the half, in the log."""
    message_id: str
    """What the client calls the message. Official clients put the UNIQ_KEY of the half here ..."""
    transaction_id: str | None
    """... or here."""
    resolution: Resolution
    answers_check: bool = False
    """Whether the client was asked about the half."""
    operator: Operator | None = None
    """The person who decided; None: the producer did."""
