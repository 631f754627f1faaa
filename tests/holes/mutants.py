"""Mutants of our broker that several tests use: the real code with one fix removed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gantrymq.broker.client import Connection
from gantrymq.broker.transactions import endings as transaction_endings
from gantrymq.broker.transactions.checks import TransactionChecks
from gantrymq.broker.transactions.decision_file import DecisionFile
from gantrymq.broker.transactions.endings import TransactionEndings
from gantrymq.errors import StoreError
from gantrymq.message.system_topics import OP
from gantrymq.message.transaction import Resolution
from gantrymq.store.values import NewRecord, Placement
from gantrymq.transactions import rebuild
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half import new_record_of
from gantrymq.transactions.rules import resolve
from gantrymq.transactions.rules.resolve import EndAction
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Cause, Decision
from gantrymq.transactions.table.due_times import DueTimes
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable
from tests.holes.case import Mutant

Patch = pytest.MonkeyPatch


# ---- the memory of decisions


def _forget_decisions(patch: Patch) -> None:
    def end(table: TransactionTable, half: OpenHalf, decision: Decision) -> None:
        half.state = State.OPEN

    patch.setattr(TransactionTable, "end", end)


NO_MEMORY = Mutant("the memory of decisions", _forget_decisions)
"""A half message that ended stays open as if it was undecided, as on Apache's brokers."""


def other_action(state: State, resolution: Resolution, action: EndAction, name: str) -> Mutant:
    """The decision table with another action for members of the right group."""

    def change(patch: Patch) -> None:
        for topic_exists in (False, True):
            patch.setitem(resolve.RULES.results, (state, True, True, resolution, topic_exists), action)

    return Mutant(name, change)


# ---- the op record in the append of the decision


class _LateOps:
    """A store that writes op records three seconds later. When the write fails, they are lost."""

    def __init__(self, store: HalfStore, call_later: Callable[..., object]) -> None:
        self._store = store
        self._call_later = call_later

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, records: Sequence[NewRecord]) -> list[Placement]:
        at_once = [record for record in records if record.topic != OP]
        late = [record for record in records if record.topic == OP]
        placed = self._store.append(at_once) if at_once else [Placement(self._store.flushed, 0, 0, 0)]  # type: ignore[attr-defined]

        def write() -> None:
            with contextlib.suppress(StoreError):  # as in 5.5.0, which has already answered SUCCESS
                self._store.append(late)

        self._call_later(3.0, write)
        return [*placed, *(placed[-1] for _ in late)] if at_once else [placed[0] for _ in late]


def _write_ops_later(patch: Patch) -> None:
    end = TransactionEndings._end

    def end_now(endings: TransactionEndings, *facts: Any) -> None:
        store = endings._store
        endings._store = _LateOps(store, endings._clock.call_later)  # type: ignore[assignment]
        try:
            end(endings, *facts)
        finally:
            endings._store = store

    patch.setattr(TransactionEndings, "_end", end_now)
    patch.setattr(transaction_endings, "append_commit", lambda *facts: None)  # so that every commit comes by _end


def _complete_nothing(patch: Patch) -> None:
    patch.setattr(rebuild, "_find_final_messages", lambda *facts: None)


def _both(*patches: Callable[[Patch], None]) -> Callable[[Patch], None]:
    def change(patch: Patch) -> None:
        for one in patches:
            one(patch)

    return change


def _no_file_of_decisions(patch: Patch) -> None:
    patch.setattr(DecisionFile, "load", lambda file: None)


LATE_OPS = Mutant("the op record in the append of the decision", _write_ops_later)
NO_COMPLETION = Mutant("the completion of torn commits at the start", _complete_nothing)
LATE_OPS_NO_COMPLETION = Mutant(
    "the op record in the append of the decision and the completion at the start",
    _both(_write_ops_later, _complete_nothing),
)
LATE_OPS_NO_FILE = Mutant(
    "the op record in the append of the decision and the file of decisions",
    _both(_write_ops_later, _no_file_of_decisions),
)


# ---- no half is written again to be checked


def _put_back(patch: Patch) -> None:
    """Each scan of a half message appends a copy and counts a round. Only the copy stays open, as in Apache's scan."""
    ask = TransactionChecks._ask

    def watch(checks: TransactionChecks, halves: Iterable[OpenHalf], *, anew: bool = False) -> None:
        wall_ms, now = checks._clock.wall_ms(), checks._clock.monotonic()
        for half in halves:
            half.immune_until = now + max(half.stored_at + half.immunity_ms - wall_ms, 0) / 1000
            checks._schedule.put(half, min(half.immune_until, now + checks._interval_s))

    def look_at(checks: TransactionChecks, half: OpenHalf, now: float) -> None:
        if half.state is not State.OPEN:
            return
        if half.unknown_answers >= checks.config.check_max:
            checks._endings.park(half, None, Cause.UNKNOWN_ANSWERS)
            return
        stored = checks._store.read(half.log_offset)
        assert stored is not None
        record = replace(new_record_of(stored), flag=0, reconsume_times=0)
        (place,) = checks._store.append((record,))
        copy = OpenHalf(
            place.queue_offset, place.log_offset, half.group, half.unique_key, half.real_topic, half.real_queue_id,
            half.stored_at, half.immunity_ms, State.OPEN,
        )  # fmt: skip
        copy.immune_until = half.immune_until
        copy.unknown_answers = half.unknown_answers + 1
        checks._table.add(copy)
        half.due = -1.0
        session = checks._producers.pick(half.group) if now >= half.immune_until else None
        checks._schedule.put(copy, now + checks._interval_s)
        if session is not None:
            # The copy is being written to the disk. The check is sent afterwards.
            checks._store.safety.when_safe(place.end, lambda error: _ask_later(checks, copy, session))

    def _ask_later(checks: TransactionChecks, copy: OpenHalf, producer: Connection) -> None:
        due = copy.due
        ask(checks, copy, producer, checks._clock.monotonic())
        copy.answer_deadline = 0.0
        copy.has_turn = False
        copy.due = due
        checks._turns._outstanding.clear()

    patch.setattr(TransactionChecks, "watch", watch)
    patch.setattr(TransactionChecks, "_look_at", look_at)


PUT_BACK = Mutant("checks without copies of the half", _put_back)


# ---- times


def _first_in_first_out(patch: Patch) -> None:
    def push(due_times: DueTimes, due: float, key: int) -> None:
        due_times._in_order.append((due, key))

    patch.setattr(DueTimes, "push", push)


QUEUE_OF_CHECKS = Mutant("a due time for each half", _first_in_first_out)
"""Checks are sent in the order of a queue: a half message that is not due yet delays all after it."""
