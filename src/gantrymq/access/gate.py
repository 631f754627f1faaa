"""The guard before one kind of request, which remembers what it let pass.

Most requests repeat what an earlier one of the same user asked for, and only their body and their numbers differ. So
for requests that a few extension fields judge (``needs.deciding_fields``), a gate keeps the values of these fields with
the user and the IP address, and lets the next such request pass without asking what it needs. Refusals are not kept
here. A change of users or policies makes a gate forget everything, before the next request is read.
"""

from __future__ import annotations

from typing import Final

from gantrymq.access.guard import JUDGEMENTS_KEPT, NAME_KEPT, Guard
from gantrymq.access.needs import Places, Row, deciding_fields
from gantrymq.access.values import User
from gantrymq.protocol.command import Command
from gantrymq.runtime.addresses import host_of


class Gate:
    """Admits what ``Guard.admit`` admits for the same row. ``row``: see there."""

    def __init__(self, guard: Guard, row: Row | None, places: Places) -> None:
        self._guard: Final = guard
        self._row: Final = row
        self._places: Final = places
        self._names: Final = None if row is None else deciding_fields(row)
        self._passed: set[tuple[str | None, ...]] = set()
        guard.directory.changed.append(self._passed.clear)

    def admit(self, command: Command, address: str, known: User | None = None) -> User | None:
        """The user who sent the request and may have it; None: it needs no user. ``known``: see ``Guard.sender``.
        Raises Denied."""
        guard, source = self._guard, host_of(address)
        if guard.is_open_to(source):
            return None
        fields = command.ext_fields()
        user = guard.sender(command, fields, source, known)
        if user is None or self._names is None:
            guard.judge(user, command, fields, self._row, self._places, source)
            return user
        key = (user.name, source, *map(fields.get, self._names))
        if key not in self._passed:
            guard.judge(user, command, fields, self._row, self._places, source)
            self._keep(key)
        return user

    def _keep(self, key: tuple[str | None, ...]) -> None:
        if all(text is None or len(text) <= NAME_KEPT for text in key):
            if len(self._passed) >= JUDGEMENTS_KEPT:
                self._passed.clear()
            self._passed.add(key)
