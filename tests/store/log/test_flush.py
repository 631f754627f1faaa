from __future__ import annotations

from gantrymq.errors import DiskFull, StoreError
from gantrymq.store.log.flush import Waiters


def test_waiters_are_answered_in_order_up_to_the_position() -> None:
    answers: list[tuple[int, StoreError | None]] = []
    waiters = Waiters()
    for end in (10, 20, 20, 30):
        waiters.add(end, lambda error, end=end: answers.append((end, error)))  # type: ignore[misc]
    waiters.reached(9)
    assert answers == []
    waiters.reached(20)
    assert answers == [(10, None), (20, None), (20, None)] and len(waiters) == 1


def test_a_failure_reaches_those_behind_it_only() -> None:
    answers: list[tuple[int, StoreError | None]] = []
    waiters = Waiters()
    for end in (10, 20, 30):
        waiters.add(end, lambda error, end=end: answers.append((end, error)))  # type: ignore[misc]
    full = DiskFull("full")
    waiters.fail(10, full)
    assert answers == [(20, full), (30, full)]
    waiters.reached(99)
    assert answers[2:] == [(10, None)]
