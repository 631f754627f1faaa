from __future__ import annotations

from gantrymq.errors import DiskFull, StoreError
from gantrymq.store.log.flush import Waiters


def test_waiters_are_answered_in_order_up_to_the_position() -> None:
    answers: list[tuple[int, StoreError | None]] = []
    waiters = Waiters()
    for end in (10, 20, 20, 30):
        waiters.add(end, lambda item, error: answers.append((item, error)), end)
    waiters.reached(9)
    assert answers == []
    waiters.reached(20)
    assert answers == [(10, None), (20, None), (20, None)] and len(waiters) == 1


def test_a_failure_reaches_those_behind_it_only() -> None:
    answers: list[tuple[int, StoreError | None]] = []
    waiters = Waiters()
    for end in (10, 20, 30):
        waiters.add(end, lambda item, error: answers.append((item, error)), end)
    full = DiskFull("full")
    waiters.fail(10, full)
    assert answers == [(20, full), (30, full)]
    waiters.reached(99)
    assert answers[2:] == [(10, None)]


def test_whoever_is_told_may_cause_the_failure_of_others() -> None:
    """It appends, and the write of that fails; those who wait for a lower position are told once all the same."""
    answers: list[tuple[str, StoreError | None]] = []
    waiters = Waiters()
    full = DiskFull("full")

    def first(item: str, error: StoreError | None) -> None:
        answers.append((item, error))
        waiters.fail(10, full)

    waiters.add(10, first, "a")
    for end, item in ((10, "b"), (20, "c")):
        waiters.add(end, lambda item, error: answers.append((item, error)), item)
    waiters.reached(10)
    waiters.reached(20)
    assert answers == [("a", None), ("c", full), ("b", None)]
