"""How many parked transactions wait for a person, right also after a restart.

Every copy in the topic of parked messages waits, unless its transaction was resumed. The copies are counted by the
range of their queue. Which of them were resumed is said by the half messages behind them; they are looked for in the
background after a start. Until then a resumed one counts as waiting, so that nobody misses one that does.
"""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.errors import StoreError
from gantrymq.message.system_topics import HALF, PARKED
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.transactions.history.evidence import HalfRecord
from gantrymq.transactions.ports import HalfStore

log = logging.getLogger("gantrymq.transactions")

AT_ONCE: Final = 16
"""Copies that are looked at between two pauses."""
PAUSE_SECONDS: Final = 0.01
SAME_KEY_MAX: Final = 64
"""Records of one id that are looked at; a client that sends an object again reuses its id."""


class ParkedMessages:
    """Counts parked transactions that wait. ``start`` begins to look for those that were resumed."""

    def __init__(self, store: HalfStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._resumed: set[int] = set()
        """Queue offsets of copies whose transactions were resumed."""
        self._next = 0
        self._end = 0
        self._timer: Timer | None = None

    def waiting(self) -> int:
        """Transactions that are parked and not resumed."""
        first, end = self._store.queue_range(PARKED, 0)
        if self._resumed:
            self._resumed = {offset for offset in self._resumed if offset >= first}
        return end - first - len(self._resumed)

    def resumed(self, queue_offset: int) -> None:
        """The copy with this queue offset waits no longer."""
        self._resumed.add(queue_offset)

    def start(self) -> None:
        """Look at the copies that are there now, a few at a time."""
        self._next, self._end = self._store.queue_range(PARKED, 0)
        self._go_on()

    def close(self) -> None:
        """Look no further."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_on(self) -> None:
        self._timer = None
        stop = min(self._next + AT_ONCE, self._end)
        try:
            for offset in range(self._next, stop):
                self._look(offset)
        except (StoreError, OSError) as error:
            log.warning("not all parked transactions could be looked at; resumed ones count as waiting: %s", error)
            return
        self._next = stop
        if stop < self._end:
            self._timer = self._clock.call_later(PAUSE_SECONDS, self._go_on)

    def _look(self, offset: int) -> None:
        entry = self._store.entry(PARKED, 0, offset)
        stored = None if entry is None else self._store.read(entry.log_offset)
        half = None if stored is None else HalfRecord.of(stored)
        if half is not None and was_resumed(self._store, half):
            self._resumed.add(offset)


def was_resumed(store: HalfStore, parked: HalfRecord) -> bool:
    """Whether an operator had a parked one checked again: there is a later half of the same transaction."""
    later = store.query(HALF, parked.unique_key, SAME_KEY_MAX) if parked.unique_key else []
    halves = [HalfRecord.of(stored) for stored in later]
    return any(
        half is not None and half.log_offset > parked.log_offset and half.identity == parked.identity for half in halves
    )
