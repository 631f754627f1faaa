"""The guard before one kind of request, which remembers what it let pass.

Most requests repeat what an earlier one of the same user asked for, and only their body and their numbers differ. So
for requests that a few extension fields judge (``naming.Row.fields``), a gate keeps the values of these fields with
the user and the IP address, and lets the next such request pass without asking what it needs. Refusals are not kept
here. A change of users or policies makes a gate forget everything, before the next request is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from gantrymq.access.guard import JUDGEMENTS_KEPT, NAME_KEPT, Guard
from gantrymq.access.places import Places
from gantrymq.access.remoting.naming import Asked, Row, Unclear
from gantrymq.access.values import User
from gantrymq.protocol.command import Command
from gantrymq.protocol.signature import ACCESS_KEY, SecretKey
from gantrymq.runtime.addresses import host_of

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
"""The field that old clients add to a question for a message after they have signed it. Source: MixAll."""


class Gate:
    """Admits requests of one code. ``row``: what they are; None: nobody said, so they need a super user."""

    def __init__(
        self, guard: Guard, row: Row | None, places: Places, *, signed: bool = True, judged: bool = True,
        remembers: bool = True,
    ) -> None:  # fmt: skip
        """``signed``, ``judged``: whether such requests need a signature, and a permission. ``remembers``: False, to
        judge each request anew."""
        self._signed: Final = signed
        self._judged: Final = judged
        self._guard: Final = guard
        self._row: Final = row
        self._places: Final = places
        self._names: Final = None if row is None or not remembers else row.fields
        self._passed: set[tuple[str | None, ...]] = set()
        guard.directory.changed.append(self._passed.clear)

    def admit(self, command: Command, address: str, known: User | None = None) -> User | None:
        """The user who sent the request and may have it; None: it needs no user. ``known``: see ``Guard.sender``.
        Raises Denied, or RemoteProtocolError for a request that cannot be read."""
        guard, source = self._guard, host_of(address)
        if guard.is_open_to(source):
            return None
        fields = command.ext_fields()
        user = None
        if self._signed:
            signed_by = partial(_is_signed, fields, command.body)
            user = guard.sender(fields.get(ACCESS_KEY), signed_by, source, known)
        if user is None or self._names is None:
            self._judge(user, command, fields, source)
            return user
        key = (user.name, source, *map(fields.get, self._names))
        if key not in self._passed:
            self._judge(user, command, fields, source)
            self._keep(key)
        return user

    def _judge(self, user: User | None, command: Command, fields: Mapping[str, str], source: str) -> None:
        guard = self._guard
        if not guard.authorizes or not self._judged:
            return
        if self._row is None:
            guard.demand_super(user, f"request code {command.code} needs a super user")
            return
        try:
            guard.demand(user, self._row.needs(Asked(command, fields, self._places, guard.cluster)), source)
        except Unclear as unclear:
            guard.demand_super(user, str(unclear))  # the operation tells a super user what is wrong

    def _keep(self, key: tuple[str | None, ...]) -> None:
        if all(text is None or len(text) <= NAME_KEPT for text in key):
            if len(self._passed) >= JUDGEMENTS_KEPT:
                self._passed.clear()
            self._passed.add(key)


def _is_signed(fields: Mapping[str, str], body: bytes, key: SecretKey) -> bool:
    if key.signs(fields, body):
        return True
    if UNIQUE_KEY_QUERY not in fields:
        return False
    return key.signs({name: value for name, value in fields.items() if name != UNIQUE_KEY_QUERY}, body)
