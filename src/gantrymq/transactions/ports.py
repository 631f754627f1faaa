"""The interface of the store that transactions need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from gantrymq.message.message import StoredMessage
from gantrymq.store.log.appender import Appender
from gantrymq.store.log.safety import LogSafety
from gantrymq.store.room import Room
from gantrymq.store.values import GetResult, NewRecord, Placement


class Entry(Protocol):
    """An entry of a consume queue."""

    @property
    def log_offset(self) -> int: ...


class HalfStore(Protocol):
    """The part of MessageStore that transactions use."""

    @property
    def min_log_offset(self) -> int: ...

    @property
    def max_log_offset(self) -> int: ...

    @property
    def safety(self) -> LogSafety: ...

    @property
    def room(self) -> Room: ...

    def append(self, records: Sequence[NewRecord]) -> Sequence[Placement]: ...

    @property
    def appender(self) -> Appender: ...

    def read(self, log_offset: int) -> StoredMessage | None: ...

    def scan(
        self, from_offset: int, to_offset: int | None = None, *, only: int | None = None
    ) -> Iterator[StoredMessage]: ...

    def finals(self, from_offset: int) -> Iterator[tuple[int, int]]: ...

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None = None,
    ) -> GetResult: ...

    def query(self, topic: str, key: str, max_num: int) -> list[StoredMessage]: ...

    def entry(self, topic: str, queue_id: int, queue_offset: int) -> Entry | None: ...

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def path(self, name: str) -> str: ...
