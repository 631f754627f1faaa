"""What needs a person: the findings of ``gantrymq.doctor``, looked for while somebody reads the overview.

A look asks each broker some questions, so all open pages share one, and no page waits long for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gantrymq.admin import Admin
from gantrymq.console.views import part, query
from gantrymq.doctor import Facts, Finding, Kind, Severity, findings_of, look_at_cluster
from gantrymq.errors import Closed
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import SharedWork

log = logging.getLogger("gantrymq.console")

LOOK_EVERY_S: Final = 10.0
"""A look that is younger is used again."""
WAIT_S: Final = 2.0
"""How long a page waits for a look; later it is shown by the part that refreshes itself."""

Way = tuple[str, Callable[[str], str]]
"""What a link says, and the path that it leads to, by the subject of a finding."""

_UNDECIDED: Final[Way] = ("Show and decide them", lambda group: f"/transactions?{query({'group': group})}")
WAYS: Final[dict[str, Way]] = {
    "nobody-can-decide": _UNDECIDED,
    "nobody-decides": _UNDECIDED,
    "parked": (
        "Show and resume them", lambda group: f"/transactions?{query({'state': 'parked', 'group': group})}"
    ),
    "dead-letters": ("Show and send them again", lambda group: f"/dead-letters/{part(group)}"),
    "selectors-differ": ("Show its members", lambda group: f"/consumers/{part(group)}"),
}  # fmt: skip
"""By rule: the page where a person does something about it."""
WAYS_OF_KIND: Final[dict[Kind, Way]] = {
    Kind.BROKER: ("Show the broker", lambda broker: f"/brokers/{part(broker)}"),
    Kind.GROUP: ("Show the group", lambda group: f"/consumers/{part(group)}"),
}
"""For the other rules, by what they are about."""
ALL: Final = "all"
"""The subject of a finding that is about no one broker."""


@dataclass(frozen=True, slots=True)
class Need:
    """One finding as the page shows it."""

    finding: Finding
    link: str
    """A path of the console, without its prefix; empty: there is no page for it."""
    label: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What one look found."""

    at_ms: int
    urgent: tuple[Need, ...]
    """Errors and warnings, the worst first."""
    unseen: tuple[Need, ...]
    """What could not be looked at, e.g. because the person may not see it."""
    notes: tuple[Need, ...]


@dataclass(slots=True)
class Attention:
    """Of one console, or of one user of the brokers, who sees what the brokers show to this user."""

    admin: Admin
    clock: Clock
    _newest: Needs | None = None
    _looked: float = 0.0
    _looks: SharedWork[str, None] = field(default_factory=SharedWork)

    async def needs(self) -> Needs | None:
        """The newest findings; None while the first look takes long."""
        if self._newest is None or self.clock.monotonic() - self._looked >= LOOK_EVERY_S:
            look = asyncio.ensure_future(self._looks.join("look", self._look))
            look.add_done_callback(_tell)
            await asyncio.wait({look}, timeout=WAIT_S)
        return self._newest

    async def close(self) -> None:
        """End a look that is under way."""
        await self._looks.stop()

    async def _look(self) -> None:
        cluster = await look_at_cluster(self.admin, self.clock)
        self._newest = needs_of(cluster.at_ms, findings_of(Facts(cluster)))
        self._looked = self.clock.monotonic()


def _tell(look: asyncio.Future[None]) -> None:
    """A look that ends with an error has hit a defect: what it shows is as old as its time says."""
    if not look.cancelled() and (error := look.exception()) is not None and not isinstance(error, Closed):
        log.error("what needs a person could not be looked for", exc_info=error)


def needs_of(at_ms: int, findings: Sequence[Finding]) -> Needs:
    """Findings in the parts of the page. Pure."""
    told = [need_of(finding) for finding in findings if not finding.unseen]
    return Needs(
        at_ms,
        urgent=tuple(need for need in told if need.finding.severity is not Severity.NOTE),
        unseen=tuple(need_of(finding) for finding in findings if finding.unseen),
        notes=tuple(need for need in told if need.finding.severity is Severity.NOTE),
    )


def need_of(finding: Finding) -> Need:
    """A finding with the page where something is done about it."""
    way = WAYS.get(finding.rule) or WAYS_OF_KIND.get(finding.kind)
    if way is None or finding.subject == ALL:
        return Need(finding, "", "")
    label, path = way
    return Need(finding, path(finding.subject), label)
