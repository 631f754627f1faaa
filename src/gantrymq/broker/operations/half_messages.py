"""The interface that sends need of transactions; TransactionCoordinator implements it."""

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

    def put_usual(
        self, topic: str, queue_id: int, body: bytes, text: str, born_timestamp: int, born_host: bytes, flag: int,
        sys_flag: int, reconsume_times: int, group: str, unique_key: str, tags_code: int,
        decisive: bool, done: Callable[[PlacedHalf, StoreError | None], None],
    ) -> None:  # fmt: skip
        """``put_half`` of a message with nothing unusual in its properties (``usual_half``). ``tags_code``: of its
        TAGS. ``decisive``: they say that the group's checkers are."""

    def put_half(
        self,
        record: NewRecord,
        group: str,
        unique_key: str,
        real_topic: str,
        real_queue_id: int,
        done: Callable[[PlacedHalf, StoreError | None], None],
    ) -> None:
        """Store ``record`` (still under its real topic) as a half; ``done`` when it is durable, or with the reason.

        Raises MessageIllegal or StoreError when it is refused at once.
        """
