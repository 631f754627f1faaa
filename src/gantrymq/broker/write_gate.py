"""The gate before everything that changes what a broker stores. It is closed while the broker is a replica, or a
primary whose replica has yet to confirm what was found at the start.

Which operations change something is said in ``access.operations``, by ``Operation.writes``. A door asks the gate once,
when it begins to serve: a broker that takes writes pays nothing for it. Behind the gate the store itself refuses what
is appended (``MessageStore.follow``), and the tables of topics, groups and offsets do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.message.replication import NOT_PRIMARY, UNCONFIRMED

READ_ONLY: Final = NOT_PRIMARY
NOT_CONFIRMED: Final = UNCONFIRMED


@dataclass(frozen=True, slots=True)
class WriteGate:
    """Says whether writes are taken."""

    reason: str = ""
    """Why not; empty: they are."""

    @property
    def closed(self) -> bool:
        return bool(self.reason)

    def check(self) -> None:
        """Raises Refused when no writes are taken."""
        if self.reason:
            raise Refused(Refusal.READ_ONLY, self.reason)


OPEN: Final = WriteGate()
"""The gate of a broker that takes writes."""
