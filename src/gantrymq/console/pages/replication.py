"""Replication: the copies of each broker, how far each has the log, and which one takes messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.admin.brokers import BrokerPlace
from gantrymq.console.listing import details
from gantrymq.console.parts import Console, console_of, page
from gantrymq.errors import GantryError

MASTER: Final = 0
MEMBERS_MAX: Final = 200
"""Brokers that are asked for one page."""


@dataclass(frozen=True, slots=True)
class Member:
    """One broker of a set that has the same log."""

    place: BrokerPlace
    error: str = ""
    role: str = ""
    """As its settings say it (brokerRole); empty: it does not say it."""
    version: str = ""
    end: int | None = None
    """Log offset up to which it has the log."""
    behind: int | None = None
    """Bytes that the primary has and this one has not; None: not known, or it is the primary."""

    @property
    def is_primary(self) -> bool:
        return self.place.broker_id == MASTER


async def show(request: Request) -> Response:
    """All brokers, by the name that the copies of one log share."""
    console = console_of(request)
    places = await console.admin.brokers.places()
    members = await details([place.address for place in places[:MEMBERS_MAX]], lambda one: member(console, places, one))
    sets: dict[tuple[str, str], list[Member]] = {}
    for one in members:
        sets.setdefault((one.place.cluster, one.place.name), []).append(one)
    compared = {key: compare(found) for key, found in sets.items()}
    return page(
        request, "replication.html", sets=compared, left=max(len(places) - MEMBERS_MAX, 0),
        replicated=any(len(found) > 1 for found in compared.values()),
    )  # fmt: skip


async def member(console: Console, places: list[BrokerPlace], address: str) -> Member:
    """What one broker says of itself."""
    place = next(one for one in places if one.address == address)
    try:
        runtime = await console.admin.brokers.runtime(address)
    except GantryError as error:
        return Member(place, str(error))
    try:
        role = (await console.admin.brokers.config(address)).get("brokerRole", "")
    except GantryError:
        role = ""  # a user may be allowed to see the figures and not the settings
    end = runtime.get("commitLogMaxOffset", "")
    return Member(
        place, role=role, version=runtime.get("brokerVersionDesc", ""), end=int(end) if end.isdecimal() else None
    )  # fmt: skip


def compare(members: list[Member]) -> list[Member]:
    """How far each copy is behind the primary. A copy is asked a moment later, so it may seem to be ahead: not behind
    then."""
    primary = next((one for one in members if one.is_primary), None)
    if primary is None or primary.end is None:
        return members
    return [
        one
        if one.is_primary or one.end is None
        else Member(one.place, one.error, one.role, one.version, one.end, max(primary.end - one.end, 0))
        for one in members
    ]
