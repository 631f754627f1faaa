"""Where the record of a group lies: a store that changes it by compare-and-set, and that outlives the brokers."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from gantrymq.broker.replication.election.record import Record

NEVER: Final = 0
"""Revision of a record that was never written."""


class Held(NamedTuple):
    """The record as it was read."""

    record: Record | None
    """None: there is none yet."""
    revision: int
    """Changes with each write of it."""


class RecordStore(Protocol):
    """Holds the record of one group. Each call raises Unreachable, TimedOut or RemoteProtocolError; a ``replace`` that
    raised may have been done."""

    async def read(self) -> Held:
        """As it is now: never an older one than a call that has returned before has seen."""

    async def replace(self, held: Held, record: Record) -> Held | None:
        """Write ``record`` if nothing was written since ``held`` was read. Returns it as it is held then; None:
        somebody else has written, and nothing was changed. Apache's controller chooses the epoch, and the set behind an
        election: then it is not what was asked for, but it has the primary that was."""
