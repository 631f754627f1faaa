"""One waiter for all records of a write."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from gantrymq.broker.shared_wait import SharedWait
from gantrymq.errors import StoreError
from gantrymq.transactions.ports import HalfStore


class _Store:
    """Positions and waiters, written to by hand."""

    def __init__(self) -> None:
        self.written = 0
        self.waiting: list[tuple[int, Callable[[StoreError | None], None]]] = []

    def when_durable(self, end: int, done: Callable[[StoreError | None], None]) -> None:
        if end <= self.written:
            done(None)
        else:
            self.waiting.append((end, done))

    def tell(self, error: StoreError | None = None) -> None:
        told, self.waiting = self.waiting, []
        for _, done in told:
            done(error)


def _waiting() -> tuple[_Store, SharedWait[str], list[tuple[list[str], StoreError | None]]]:
    store, told = _Store(), list[tuple[list[str], StoreError | None]]()
    return store, SharedWait(cast(HalfStore, store), lambda items, error: told.append((items, error))), told


def test_the_records_of_a_write_are_told_of_together() -> None:
    store, waits, told = _waiting()
    waits.add(10, "a")
    waits.add(20, "b")
    assert [end for end, _ in store.waiting] == [10]
    store.written = 20
    waits.add(30, "c")  # written, not synced yet: another write, another fate
    assert [end for end, _ in store.waiting] == [10, 30]
    store.tell()
    assert told == [(["a", "b"], None), (["c"], None)]


def test_after_a_failed_write_the_next_records_wait_for_themselves() -> None:
    store, waits, told = _waiting()
    waits.add(10, "a")
    error = StoreError("full")
    store.tell(error)
    waits.add(10, "b")
    store.written = 10
    store.tell()
    assert told == [(["a"], error), (["b"], None)]


def test_what_is_written_already_is_told_of_at_once_and_keeps_nobody_else_waiting() -> None:
    store, waits, told = _waiting()
    store.written = 10
    waits.add(10, "a")
    waits.add(20, "b")
    assert told == [(["a"], None)]
    store.tell()
    assert told[1:] == [(["b"], None)]
