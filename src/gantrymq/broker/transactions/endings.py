"""Carries out decisions about half messages: append, wait until that is safe, answer everybody who waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.broker.transactions.counts import TransactionCounts
from gantrymq.broker.transactions.history import TransactionHistory
from gantrymq.errors import CorruptRecord, InvariantViolated, StoreError, StoreUnavailable, invariant
from gantrymq.protocol.stored_message import decode_record
from gantrymq.runtime.clock import Clock
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.store.room import Use
from gantrymq.store.values import NewRecord
from gantrymq.transactions.history.events import EventKind
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.commit import append_commit, append_commits
from gantrymq.transactions.records.half import final_record, new_record_of, op_record, parked_record
from gantrymq.transactions.rules.states import TRANSITIONS, Event, State
from gantrymq.transactions.table.decisions import Cause, Decision
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable, Waiting

log = logging.getLogger("gantrymq.transactions")

# Looking up a member of an enum costs ten times a global before Python 3.12; these are looked up for each message.
_OPEN: Final = State.OPEN
_UNCONFIRMED: Final = State.UNCONFIRMED
_COMMITTING: Final = TRANSITIONS[State.OPEN, Event.COMMIT]
_COMMITTED: Final = Decision.COMMITTED
_IS_COMMITTED: Final = TRANSITIONS[_COMMITTING, Event.DURABLE]
_ENDED: Final = {
    state: (decision, TRANSITIONS[state, Event.DURABLE])
    for state, decision in (
        (State.COMMITTING, Decision.COMMITTED),
        (State.ROLLING_BACK, Decision.ROLLED_BACK),
        (State.PARKING, Decision.PARKED),
    )
}
"""By the state of a half whose end is being written: the decision, and the state when that is safe."""
_ONCE: Final = "only an open half is decided"


class _Run:
    """Halves whose decisions are written together, and who waits for them."""

    __slots__ = ("_done", "halves")

    def __init__(self, halves: Sequence[OpenHalf], done: Callable[[StoreError | None], None]) -> None:
        self.halves = halves
        self._done: Callable[[StoreError | None], None] | None = done

    def tell(self, error: StoreError | None) -> None:
        """Tell whoever waits, once."""
        done, self._done = self._done, None
        if done is not None:
            done(error)


class TransactionEndings:
    """The one place that ends a transaction.

    The records of every end go to the log in one append: the op message alone (one for each copy of the half message),
    or the final or parked message with the op message behind it. A crash leaves either nothing of them (the half
    message is open) or a message without its op message, which the next start completes.
    """

    def __init__(
        self,
        store: HalfStore,
        table: TransactionTable,
        clock: Clock,
        counts: TransactionCounts,
        broker_host: bytes,
        make_parked_topic: Callable[[], None],
        history: TransactionHistory,
        op_message_bytes: int,
    ) -> None:
        """``op_message_bytes``: see ``TransactionConfig``."""
        self._history = history
        self._op_message_bytes = op_message_bytes
        self._make_parked_topic = make_parked_topic
        self._store = store
        self._appender = store.appender
        self._safety = store.safety
        self._room = store.room
        self._position, self._now_ms = -1, 0
        """The safe position when the clock was asked last, and what it said."""
        self._table = table
        self._clock = clock
        self._counts = counts
        self._host = broker_host
        self.unconfirmed: dict[int, Unconfirmed] = {}
        """By half queue offset: decisions that are not safe within the time their senders wait. They stand."""

    def commit(
        self, half: OpenHalf, queues: int, then: Waiting | None = None, by: bytes = b"", cause: int = Cause.PRODUCER,
        note: str = "",
    ) -> None:  # fmt: skip
        """Deliver an open half to its topic, which consumers read ``queues`` queues of. Raises StoreUnavailable when
        nothing was appended (the half is still open); else ``then`` is called when the write has ended. ``by``,
        ``cause``, ``note``: see ``op_record``; ``b""``: this broker."""
        if self._room.tight:
            self._room.check(Use.DECISION)
        queue_id = half.real_queue_id
        if queue_id >= queues:
            queue_id %= queues  # The topic has fewer queues than when it was sent: there nobody would read it (X4).
        if half.record is not None and not half.copies and not note:
            if half.state is not _OPEN and half.state is not _UNCONFIRMED:
                raise InvariantViolated(_ONCE)
            end = append_commit(self._appender, half, half.record, queue_id, by or self._host, cause)
            if end is not None:
                half.state = _COMMITTING
                half.waiting = None if then is None else [then]
                self._safety.tell(end, self._ended, half, self._late)
                return
        final = final_record(self._record_of(half), half.real_topic, queue_id, half.log_offset)
        self._end(half, Event.COMMIT, Decision.COMMITTED, final, then, by, cause, note)

    def commit_run(
        self, halves: Sequence[OpenHalf], records: Sequence[bytes], queues: int, by: bytes,
        done: Callable[[StoreError | None], None],
    ) -> bool:  # fmt: skip
        """``commit`` of halves of one group and one queue for their producer, in one write. ``records``: the halves as
        they are stored. They are open, have keys and no copies, and no check of them is outstanding.

        False, and nothing has happened: commit them one by one. Raises StoreUnavailable like ``commit``.
        """
        if self._room.tight:
            self._room.check(Use.DECISION)
        queue_id = halves[0].real_queue_id
        if queue_id >= queues:
            queue_id %= queues
        if any([half.state is not _OPEN for half in halves]) or len({half.queue_offset for half in halves}) < len(
            halves
        ):
            return False
        end = append_commits(
            self._appender, halves, records, queue_id, by or self._host, int(Cause.PRODUCER), self._op_message_bytes
        )
        if end is None:
            return False
        for half in halves:
            half.state, half.waiting = _COMMITTING, None
        self._safety.tell(end, self._run_ended, _Run(halves, done), self._run_late)
        return True

    def _run_ended(self, run: _Run, error: StoreError | None) -> None:
        if error is not None or self.unconfirmed:
            for half in run.halves:
                self._ended(half, error)
        else:
            for half in run.halves:
                half.state = _IS_COMMITTED
            self._table.end_run(run.halves, _COMMITTED)
            now_ms = self._clock.wall_ms()
            self._counts.committed_all(run.halves[0].real_topic, [now_ms - half.stored_at for half in run.halves])
            for half in run.halves:
                if half.waiting is not None:
                    waiting, half.waiting = half.waiting, None
                    for then in waiting:
                        then(half, None)
        run.tell(error)

    def _run_late(self, run: _Run, error: Unconfirmed) -> None:
        for half in run.halves:
            self._late(half, error)
        run.tell(error)

    def roll_back(
        self, half: OpenHalf, then: Waiting | None = None, by: bytes = b"", cause: int = Cause.PRODUCER, note: str = ""
    ) -> None:
        """Drop an open half; like ``commit``."""
        self._end(half, Event.ROLLBACK, Decision.ROLLED_BACK, None, then, by, cause, note)

    def park(self, half: OpenHalf, then: Waiting | None, cause: Cause) -> None:
        """Put an open half aside for the operator; like ``commit``."""
        if self._room.tight:
            self._room.check(Use.DECISION)
        self._make_parked_topic()
        parked = parked_record(self._record_of(half), half.log_offset, half.times_asked)
        self._end(half, Event.GIVE_UP, Decision.PARKED, parked, then, b"", cause, "")

    def _end(
        self, half: OpenHalf, event: Event, decision: Decision, message: NewRecord | None, then: Waiting | None,
        by: bytes, cause: int, note: str,
    ) -> None:  # fmt: skip
        invariant(half.state is _OPEN or half.state is _UNCONFIRMED, _ONCE)
        now_ms = self._clock.wall_ms()
        by = by or self._host
        ops = [op_record(half.queue_offset, decision, now_ms, by, cause, note)]
        ops += [op_record(offset, decision, now_ms, by, cause, note) for offset, _ in half.copies]
        placed = self._store.append(ops if message is None else [message, *ops])
        half.take(event)
        half.waiting = None if then is None else [then]
        self._safety.tell(placed[-1].end, self._ended, half, self._late)

    def _ended(self, half: OpenHalf, error: StoreError | None) -> None:
        decision, state = _ENDED[half.state]
        if self.unconfirmed:
            self.unconfirmed.pop(half.queue_offset, None)
        waiting, half.waiting = half.waiting, None
        if error is not None:
            self._failed(half, decision, error)
        else:
            half.state = state
            self._table.end(half, decision)
            self._count(half, decision)
        if waiting is not None:
            for then in waiting:
                then(half, error)

    def _count(self, half: OpenHalf, decision: Decision) -> None:
        if decision is _COMMITTED:
            position = self._safety.position
            if position != self._position:  # what became safe together did so at one time
                self._position, self._now_ms = position, self._clock.wall_ms()
            self._counts.committed(half.real_topic, self._now_ms - half.stored_at)
        elif decision is Decision.ROLLED_BACK:
            rolled_back = self._counts.rolled_back
            rolled_back[half.real_topic] = rolled_back.get(half.real_topic, 0) + 1
        else:
            self._counts.parked += 1

    def _late(self, half: OpenHalf, error: Unconfirmed) -> None:
        """Who waits for this decision waits no longer; it is carried out when it is safe."""
        self.unconfirmed[half.queue_offset] = error
        waiting, half.waiting = half.waiting, None
        for then in waiting or ():
            then(half, error)

    def _failed(self, half: OpenHalf, decision: Decision, error: StoreError) -> None:
        half.take(Event.FAILED)
        self._counts.failed += 1
        self._history.note(EventKind.FAILED, half.place, decision)
        log.error(
            "the decision %s of half message %d could not be stored, it stays open: %s",
            decision.name, half.queue_offset, error,
        )  # fmt: skip

    def _record_of(self, half: OpenHalf) -> NewRecord:
        """The half message, from memory or from the log. Raises CorruptRecord when the log has lost it."""
        stored = self._store.read(half.log_offset) if half.record is None else decode_record(half.record)
        if stored is None and half.state is _UNCONFIRMED:
            raise StoreUnavailable("the half message is not confirmed yet; try again when it is")
        if stored is None:
            raise CorruptRecord(half.log_offset, "an open half message is no longer there")
        return new_record_of(stored)


def end_after(half: OpenHalf, then: Waiting) -> None:
    """Call ``then`` when the current write for ``half`` has ended."""
    if half.waiting is None:
        half.waiting = [then]
    else:
        half.waiting.append(then)
