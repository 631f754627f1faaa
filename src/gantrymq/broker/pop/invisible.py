"""Which messages are invisible because a group has popped them, for metrics."""

from __future__ import annotations

from collections.abc import Iterable

from gantrymq.broker.metrics.lag import NONE, Invisible, Place
from gantrymq.broker.pop.ledger import OpenPoint


def invisible(points: Iterable[OpenPoint]) -> dict[Place, Invisible]:
    """Of all open check points."""
    found: dict[Place, Invisible] = {}
    for opened in points:
        if opened.pending:
            place = opened.point.topic, opened.point.group, opened.point.queue_id
            before, first = found.get(place, NONE), min(opened.pending)
            found[place] = Invisible(
                before.messages + len(opened.pending), min(before.first, first) if before.messages else first
            )
    return found
