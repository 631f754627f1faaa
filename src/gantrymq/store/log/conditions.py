"""What must hold for a position of the log before it is safe, and what is said when it does not hold in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gantrymq.errors import StoreError, StoreUnavailable
from gantrymq.message.send_status import SendStatus


class Condition(Protocol):
    """Something that must hold for a position before it is safe. All calls belong to the event loop."""

    @property
    def name(self) -> str:
        """Who confirms, for sentences: ``the replica``."""

    @property
    def position(self) -> int:
        """Everything before this log offset is confirmed. It only grows, but for ``truncated``."""

    @property
    def available(self) -> bool:
        """Whether somebody is there to confirm; if not, senders are told ``absent`` and do not wait."""

    @property
    def limit_ms(self) -> int | None:
        """How long a sender waits for the confirmation; None: as long as it takes."""

    @property
    def expired(self) -> SendStatus:
        """What a sender is told when the limit has passed."""

    @property
    def absent(self) -> SendStatus:
        """What a sender is told when nobody is there to confirm."""

    def follow(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever ``position`` or ``available`` has changed."""

    def truncated(self, position: int) -> None:
        """The log ends at ``position`` now, and other records will come to lie behind it: what was confirmed there
        counts no longer."""


class LocalDisk:
    """The condition that is always there: the disk of this broker."""

    name = "the disk"
    available = True
    expired = SendStatus.FLUSH_DISK_TIMEOUT
    absent = SendStatus.FLUSH_DISK_TIMEOUT

    def __init__(self, position: int, limit_ms: int | None) -> None:
        self.position = position
        self.limit_ms = limit_ms

    def follow(self, changed: Callable[[], None]) -> None: ...

    def truncated(self, position: int) -> None:
        self.position = min(self.position, position)


class Unconfirmed(StoreUnavailable):
    """It is stored on this disk, and was not confirmed in time. It counts as soon as it is safe; ``status`` is what the
    sender of a message is told."""

    def __init__(self, status: SendStatus, reason: str) -> None:
        self.status = status
        super().__init__(reason)


def status_of(error: StoreError | None) -> SendStatus | StoreError:
    """What the sender of a message is told, of what ``LogSafety.when_stored`` said."""
    if error is None:
        return SendStatus.SEND_OK
    return error.status if isinstance(error, Unconfirmed) else error
