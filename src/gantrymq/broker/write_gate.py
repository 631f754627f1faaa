"""The gate before everything that changes what a broker stores. It is closed while the broker is a replica.

Which operations change something is said in ``access.operations``, by ``Operation.writes``. A door asks the gate once,
when it begins to serve: a broker that takes writes pays nothing for it. Behind the gate the store itself refuses what
is appended (``MessageStore.follow``), and the tables of topics, groups and offsets do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.message.replication import NOT_PRIMARY

READ_ONLY: Final = NOT_PRIMARY


@dataclass(frozen=True, slots=True)
class WriteGate:
    """Says whether writes are taken."""

    closed: bool = False

    def check(self) -> None:
        """Raises Refused when no writes are taken."""
        if self.closed:
            raise Refused(Refusal.READ_ONLY, READ_ONLY)


OPEN: Final = WriteGate()
"""The gate of a broker that takes writes."""
