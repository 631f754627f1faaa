"""How far groups were behind over the last half hour: read at an interval, kept in memory, for the plots of consumers.

It is one question to each broker. Of a cluster with very many groups those that are furthest behind are kept, so the
memory has a bound: ``KEPT`` times ``GROUPS_MAX`` pairs of numbers.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gantrymq.admin import Admin
from gantrymq.admin.overviews import Group
from gantrymq.errors import GantryError
from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.console")

KEPT: Final = 180
"""Samples; half an hour at one every 10 s."""
GROUPS_MAX: Final = 500
"""Groups of one sample."""
SAMPLES_BETWEEN: Final = 5
"""Lag is read at every fifth sample of the brokers: counting it costs a broker more than its other figures."""


@dataclass(frozen=True, slots=True)
class Behind:
    """How far a group was behind at one time."""

    messages: int
    ms: int
    """Age of the oldest message that it had not consumed."""


@dataclass(slots=True)
class LagHistory:
    """Takes samples while the console runs."""

    admin: Admin
    clock: Clock
    interval_s: float
    kept: deque[Mapping[str, Behind]] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def span_s(self) -> float:
        """The time that a full plot covers."""
        return KEPT * self.interval_s

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                self.kept.append(furthest((await self.admin.overviews.groups()).groups))
            except GantryError:
                self.kept.append({})  # a gap in the plots; the pages say what is wrong
            except Exception:
                log.exception("how far groups are behind could not be read")  # the next time, perhaps
            await self.clock.sleep(self.interval_s)

    def of(self, group: str) -> tuple[list[float | None], list[float | None]]:
        """Messages and seconds of a group, the oldest first; None where nothing is known. Unknown ones lead, so that
        plots fill from the right."""
        found = [sample.get(group) for sample in self.kept]
        before: list[float | None] = [None] * (KEPT - len(found))
        messages: list[float | None] = [None if one is None else float(one.messages) for one in found]
        seconds: list[float | None] = [None if one is None else one.ms / 1000 for one in found]
        return before + messages, before + seconds


def furthest(groups: Mapping[str, Group]) -> dict[str, Behind]:
    """What a sample keeps: all groups, or the ``GROUPS_MAX`` that are furthest behind."""
    rows = groups.values()
    if len(rows) > GROUPS_MAX:
        rows = heapq.nlargest(GROUPS_MAX, rows, key=lambda row: row.lag)  # type: ignore[assignment]
    return {row.group: Behind(row.lag, row.behind_ms) for row in rows}
