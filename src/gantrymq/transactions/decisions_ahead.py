"""The decisions in a log that another broker writes, read piece by piece while it is written.

A replica that becomes primary needs all of them, and reads the rest only. They are kept in memory, and take a byte for
each half message that the log has.
"""

from __future__ import annotations

from typing import Final

from gantrymq.message.system_topics import HALF, OP
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.rebuild import apply_ops
from gantrymq.transactions.table.decisions import Coverage, DecisionLog

OPS_IN_A_PIECE: Final = 2_000
"""Some milliseconds of work."""


class DecisionsAhead:
    """Of one replica."""

    def __init__(self, store: HalfStore) -> None:
        self._store = store
        self.forget()

    def forget(self) -> None:
        """The log was cut: begin anew."""
        self._decisions = DecisionLog(self._store.queue_range(HALF, 0)[0])
        self._next_op = 0

    @property
    def is_done(self) -> bool:
        """Whether little is left to be read of what is visible."""
        return self._store.queue_range(OP, 0)[1] - self._next_op <= OPS_IN_A_PIECE

    def look_ahead(self) -> None:
        """Read the next piece."""
        halves = self._store.queue_range(HALF, 0)
        self._decisions.forget_below(halves[0])
        self._next_op = apply_ops(self._store, self._decisions, self._next_op, halves, OPS_IN_A_PIECE)

    def saved(self) -> tuple[DecisionLog, Coverage]:
        """For ``rebuild``: it owns what it gets, and reads what came behind it."""
        found = self._decisions, Coverage(next_op=self._next_op)
        self.forget()
        return found
