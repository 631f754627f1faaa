"""Names and passwords that somebody gives: checked, limited and counted, wherever they come in."""

from __future__ import annotations

import logging

from gantrymq.console.identity import Identities, Person
from gantrymq.console.metrics import DONE, FAILED, LIMITED, REFUSED
from gantrymq.console.parts import Console
from gantrymq.console.passwords import PASSWORD_MAX
from gantrymq.errors import GantryError

log = logging.getLogger("gantrymq.console")


class TooManyAttempts(GantryError):
    """Further attempts must wait."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"Too many wrong passwords. Try again in {wait_s:.0f} seconds.")


async def identified(console: Console, identities: Identities, name: str, password: str, address: str) -> Person | None:
    """The person with this name and password; None when one of them is wrong.

    Raises TooManyAttempts, and other GantryErrors when nobody can say now.
    """
    count = console.figures.logins
    wait_s = console.limit.wait_s(name, address)
    if wait_s > 0:
        count[LIMITED] += 1
        raise TooManyAttempts(wait_s)
    console.limit.attempt(name, address)
    try:
        person = await identities.person(name, password) if len(password) <= PASSWORD_MAX else None
    except GantryError:
        count[FAILED] += 1
        raise
    if person is None:
        count[REFUSED] += 1
        log.warning("wrong name or password for %r from %s", name, address)
        return None
    count[DONE] += 1
    console.limit.succeeded(name, address)
    return person
