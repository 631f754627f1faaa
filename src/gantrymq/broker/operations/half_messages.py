"""What sends need of transactions; the TransactionCoordinator is it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gantrymq.errors import StoreError
from gantrymq.store.values import NewRecord


class PlacedHalf(Protocol):
    """Where a half message lies."""

    @property
    def queue_offset(self) -> int: ...

    @property
    def log_offset(self) -> int: ...


class HalfMessages(Protocol):
    """Takes half messages."""

    def put_half(
        self, record: NewRecord, group: str, unique_key: str, done: Callable[[PlacedHalf, StoreError | None], None]
    ) -> None:
        """Store ``record`` (still under its real topic) as a half; ``done`` when it is safe, or with the reason.

        Raises MessageIllegal or StoreError when it is refused at once.
        """
