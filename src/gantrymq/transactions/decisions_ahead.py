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
        self.restore(DecisionLog(), 0)

    def restore(self, decisions: DecisionLog, next_op: int) -> None:
        """Go on from what the op messages before this queue offset say: ``decisions``, which is its own from now on."""
        decisions.forget_below(self._store.queue_range(HALF, 0)[0])
        self._decisions = decisions
        self._next_op = next_op
        self._decided: list[int] = []

    @property
    def next_op(self) -> int:
        """Queue offset of the first op message that was not read."""
        return self._next_op

    @property
    def is_done(self) -> bool:
        """Whether little is left to be read of what is visible."""
        return self._store.queue_range(OP, 0)[1] - self._next_op <= OPS_IN_A_PIECE

    def look_ahead(self, end: int | None = None) -> None:
        """Read the next piece. ``end``: the first op message that is not read yet; None: what is visible is read."""
        halves = self._store.queue_range(HALF, 0)
        self._decisions.forget_below(halves[0])
        most = OPS_IN_A_PIECE if end is None else min(OPS_IN_A_PIECE, end - self._next_op)
        self._next_op = apply_ops(self._store, self._decisions, self._next_op, halves, most, self._decided)

    def news(self) -> list[tuple[int, bytes]]:
        """What was found since the last call: runs of half messages that follow each other, each a queue offset and a
        byte for each of them."""
        found, self._decided = sorted(self._decided), []
        runs: list[tuple[int, bytearray]] = []
        for half in found:
            if not runs or half != runs[-1][0] + len(runs[-1][1]):
                runs.append((half, bytearray()))
            runs[-1][1].append(self._decisions[half])
        return [(begin, bytes(known)) for begin, known in runs]

    def everything(self) -> list[tuple[int, bytes]]:
        """The same of all that is known."""
        self._decided = []
        return [(self._decisions.base, self._decisions.content())]

    def saved(self) -> tuple[DecisionLog, Coverage]:
        """For ``rebuild``, which owns what it gets, and reads what came behind it."""
        return self._decisions.copy(), Coverage(next_op=self._next_op)
