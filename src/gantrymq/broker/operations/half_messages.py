"""What sends need of transactions; the TransactionCoordinator is it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gantrymq.errors import StoreError
from gantrymq.protocol.stored_message import Birth
from gantrymq.store.log.appender import RunItem
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

    def put_run(
        self, topic: str, queue_id: int, group: str, items: Sequence[RunItem], common: str, birth: Birth,
        done: Callable[[Sequence[PlacedHalf], StoreError | None], None],
    ) -> bool:  # fmt: skip
        """``put_half`` for many messages of one queue, each with a key of its own; ``done`` once for all of them.

        ``common``: properties that all of them have, at the end of the text of each. False, and nothing is stored,
        where that cannot be done at once: one of them joins an open half, for example. Raises as ``put_half``.
        """
