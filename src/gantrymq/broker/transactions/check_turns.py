"""How many checks a producer group has to answer at once, and which half messages wait until it has room for more."""

from __future__ import annotations

from collections import deque
from typing import Final

from gantrymq.broker.transactions.ports import ProducerGroups
from gantrymq.transactions.table.open_half import OpenHalf
from gantrymq.transactions.table.open_halves import TransactionTable

OUTSTANDING_PER_PRODUCER: Final = 1_000
"""Checks that may wait for their answers, per live producer of a group. Clients keep 2,000 in mind; more than that they
drop (Apache's) or answer UNKNOWN (ours), which would count as asked (X6)."""


class CheckTurns:
    """Counts the checks that are not answered, by group. A half message *has a turn* while its check is one of them."""

    def __init__(
        self, table: TransactionTable, producers: ProducerGroups, per_producer: int = OUTSTANDING_PER_PRODUCER
    ) -> None:
        self._table = table
        self._producers = producers
        self._per_producer = per_producer
        self._outstanding: dict[str, int] = {}
        """Checks sent and not answered, by group."""
        self._waiting: dict[str, deque[int]] = {}
        """Half messages that wait for a turn, by group, the longest first. Some may have been decided meanwhile."""

    def is_crowded(self, half: OpenHalf) -> bool:
        """Whether the group of a half has as many checks to answer as its members can keep in mind."""
        outstanding = self._outstanding.get(half.group, 0)
        if half.has_turn or outstanding < self._per_producer:
            return False
        return outstanding >= self._per_producer * len(self._producers.members(half.group))

    def wait(self, half: OpenHalf) -> None:
        """A half whose group is crowded waits for a turn."""
        if not half.in_line:
            half.in_line = True
            self._waiting.setdefault(half.group, deque()).append(half.queue_offset)

    def take(self, half: OpenHalf) -> None:
        """A check of a half was sent."""
        half.in_line = False
        if not half.has_turn:
            half.has_turn = True
            self._outstanding[half.group] = self._outstanding.get(half.group, 0) + 1

    def give_back(self, half: OpenHalf) -> OpenHalf | None:
        """The check of a half needs no answer any more. Returns the half that has the turn now; None: nobody waits."""
        if not half.has_turn:
            return None
        half.has_turn = False
        group = half.group
        waiting = self._waiting.get(group)
        while waiting:
            following = self._table.get(waiting.popleft())
            if following is not None and following.in_line:
                following.in_line = False
                following.has_turn = True
                return following
        self._waiting.pop(group, None)
        left = self._outstanding[group] - 1
        if left:
            self._outstanding[group] = left
        else:
            del self._outstanding[group]
        return None
