"""Keeps up to date what shortens the next start: offsets for an Apache broker, the file of decisions, notes of halves.

All of it is derived from the log, and may be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.broker.transactions.decision_file import DecisionFile
from gantrymq.broker.transactions.half_notes_file import HalfNotesFile
from gantrymq.broker.transactions.ports import OffsetBook
from gantrymq.message.system_topics import HALF, OP, TRANSACTION_GROUP
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.disk import Disk
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half import HALF_QUEUE_ID
from gantrymq.transactions.table.open_halves import TransactionTable

OFFSETS_INTERVAL_S: Final = 5.0
"""Between two updates of the CID_RMQ_SYS_TRANS offsets, which an Apache broker would start from."""
DECISIONS_INTERVAL_S: Final = 5.0
"""Between two writes of the decisions file, per MiB it has; a start after a crash reads the ops of that time."""
NOTES_INTERVAL_S: Final = 5.0
"""Half messages that stay open once to twice as long are noted; a start reads younger ones from the log."""


class DerivedFiles:
    """What the next start finds beside the log."""

    def __init__(self, store: HalfStore, offsets: OffsetBook, clock: Clock, disk: Disk) -> None:
        self._store = store
        self._offsets = offsets
        self._clock = clock
        self._file = DecisionFile(disk, store)
        self._notes = HalfNotesFile(disk, clock, store)
        self._timers: list[Timer] = []
        self._decisions_due = 0.0
        self._doubtful = False
        self.decisions: Final = self._file.load
        self.discard_decisions: Final = self._file.discard
        self.notes: Final = self._notes.blocks

    def start(self, table: TransactionTable) -> None:
        """Write from time to time what has changed."""
        self._every(OFFSETS_INTERVAL_S, lambda: self._commit_offsets(table))
        self._every(DECISIONS_INTERVAL_S, lambda: self._save_decisions(table))
        self._every(NOTES_INTERVAL_S, lambda: self._notes.go_on(table))

    def doubt(self) -> None:
        """The table may be wrong from now on: whoever ended a transaction was told that nobody knows whether it is
        ended. The file stays as it was before, and the next start reads the log behind it."""
        self._doubtful = True

    def close(self, table: TransactionTable) -> None:
        """Write everything for the last time."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._commit_offsets(table)
        if not self._doubtful:
            self._file.save(table)
        self._notes.finish(table)

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        slot = len(self._timers)

        def again() -> None:
            self._timers[slot] = self._clock.call_later(seconds, again)
            work()

        self._timers.append(self._clock.call_later(seconds, again))

    def _save_decisions(self, table: TransactionTable) -> None:
        now = self._clock.monotonic()
        if now >= self._decisions_due and not self._doubtful:
            self._decisions_due = now + DECISIONS_INTERVAL_S * (table.decisions.size >> 20)
            self._file.save_later(table)

    def _commit_offsets(self, table: TransactionTable) -> None:
        """Say how far an Apache broker may skip: to the oldest open half, and to the first op behind it."""
        half_end = self._store.queue_range(HALF, HALF_QUEUE_ID)[1]
        half = table.first_needed(half_end)
        if not half_end:
            return  # a group without offsets, where there was no transaction yet
        self._offsets.commit(TRANSACTION_GROUP, HALF, HALF_QUEUE_ID, half)
        self._offsets.commit(TRANSACTION_GROUP, OP, HALF_QUEUE_ID, first_op_behind(self._store, half))


def first_op_behind(store: HalfStore, half_queue_offset: int) -> int:
    """The first op that lies behind a half in the log: no earlier one can name it."""
    low, high = store.queue_range(OP, HALF_QUEUE_ID)
    half = store.entry(HALF, HALF_QUEUE_ID, half_queue_offset)
    if half is None:
        return high
    while low < high:
        middle = (low + high) // 2
        op = store.entry(OP, HALF_QUEUE_ID, middle)
        if op is not None and op.log_offset > half.log_offset:
            high = middle
        else:
            low = middle + 1
    return low
