"""Defects of replication that are planted in a pair and in a group."""

from __future__ import annotations

import pytest

from gantrymq.broker.replication.following import Following, State
from gantrymq.broker.replication.port import Port


def nothing_is_compared(patch: pytest.MonkeyPatch) -> None:
    """A former primary follows from where its own log ends, and keeps its surplus."""
    made = Following.__init__

    def follows(self: Following, _begin: int, _first_end: int, own_end: int) -> None:
        made(self, own_end, own_end, own_end)
        self.state = State.FOLLOWING

    patch.setattr(Following, "__init__", follows)


def what_is_sent_counts(patch: pytest.MonkeyPatch) -> None:
    """A primary takes for stored by a replica what it has sent to it."""
    grown = Port.grown

    def sends(self: Port, position: int) -> None:
        grown(self, position)
        for replica in self.replicas:
            if replica.follows:
                replica.sending.confirmed = replica.sending.next_place
                self.confirmed(replica)

    patch.setattr(Port, "grown", sends)
