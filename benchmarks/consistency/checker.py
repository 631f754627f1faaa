"""Counts what went wrong: orders that were lost, doubled, phantom or stuck. Pure.

| what    | meaning                                                                                              |
|---------|------------------------------------------------------------------------------------------------------|
| lost    | the order is paid, a service never did its part, and nothing is on its way any more                  |
| doubled | a service did its part more than once                                                                |
| phantom | a service did its part of an order that is not paid, and nothing is on its way that could still pay  |
|         | it or take it back                                                                                   |
| stuck   | the services disagree and something that could settle it is still there: a prepared transaction, a   |
|         | row of the outbox, an open half message. And always: a prepared transaction, which holds locks       |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Effects = Mapping[str, Mapping[int, int]]
"""For each service, how often it did its part of an order; orders that it does not know are missing."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All four databases at a moment, and what is still on its way between them."""

    paid: frozenset[int]
    effects: Effects
    in_doubt: frozenset[int] = frozenset()
    """Orders that a prepared transaction, a row of the outbox or an open half message belongs to."""
    prepared: frozenset[int] = frozenset()
    """Of these, the ones with a prepared transaction."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The numbers of the orders, for each kind of fault."""

    lost: frozenset[int] = field(default_factory=frozenset)
    doubled: frozenset[int] = field(default_factory=frozenset)
    phantom: frozenset[int] = field(default_factory=frozenset)
    stuck: frozenset[int] = field(default_factory=frozenset)

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.phantom or self.stuck)

    def counts(self) -> dict[str, int]:
        return {name: len(getattr(self, name)) for name in ("lost", "doubled", "phantom", "stuck")}


def faults(snapshot: Snapshot) -> Faults:
    """What is wrong now. Of an order that is in doubt, only the doubled effects are certain."""
    missing = {order for done in snapshot.effects.values() for order in snapshot.paid - done.keys()}
    seen = {order for done in snapshot.effects.values() for order in done}
    doubled = {order for done in snapshot.effects.values() for order, times in done.items() if times > 1}
    return Faults(
        lost=frozenset(missing - snapshot.in_doubt),
        doubled=frozenset(doubled),
        phantom=frozenset(seen - snapshot.paid - snapshot.in_doubt),
        stuck=frozenset((missing | (seen - snapshot.paid)) & snapshot.in_doubt) | snapshot.prepared,
    )
