"""One waiter for all records of a write."""

from __future__ import annotations

from gantrymq.errors import StoreError
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.safety import LogSafety
from gantrymq.store.log.shared_wait import SharedWait
from tests.support.safety import empty_log, safety_of

Reported = list[tuple[list[str], StoreError | None]]


def _waiting() -> tuple[CommitLog, LogSafety, SharedWait[str], Reported]:
    log, reported = empty_log(), Reported()
    safety = safety_of(log)
    return log, safety, safety.shared_wait(lambda items, error: reported.append((items, error))), reported


def test_the_records_of_a_write_are_told_of_together() -> None:
    log, safety, waits, reported = _waiting()
    log.appended = 20
    waits.add(10, "a")
    waits.add(20, "b")
    log.written, log.appended = 20, 30
    waits.add(30, "c")  # written, not synced yet: another write, another fate
    safety.stored_here(20)
    assert reported == [(["a", "b"], None)]
    safety.stored_here(30)
    assert reported[1:] == [(["c"], None)]


def test_after_a_failed_write_the_next_records_wait_for_themselves() -> None:
    log, safety, waits, reported = _waiting()
    log.appended = 10
    waits.add(10, "a")
    error = StoreError("full")
    safety.taken_back(0, error)
    waits.add(10, "b")
    log.written = 10
    safety.stored_here(10)
    assert reported == [(["a"], error), (["b"], None)]


def test_what_is_safe_already_is_told_of_at_once_and_keeps_nobody_else_waiting() -> None:
    log, safety, waits, reported = _waiting()
    log.written = log.appended = 10
    safety.stored_here(10)
    waits.add(10, "a")
    log.appended = 20
    waits.add(20, "b")
    assert reported == [(["a"], None)]
    safety.stored_here(20)
    assert reported[1:] == [(["b"], None)]
