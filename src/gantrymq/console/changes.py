"""Changes other than decisions about transactions: each is noted in the audit file before and after, like those."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gantrymq.admin.audit import AuditFile, Phase
from gantrymq.console.identity import Person
from gantrymq.errors import ConfigError, GantryError, TimedOut, Unreachable


@dataclass(slots=True)
class Ending:
    """How a change ended that raised no error; the block may say more than that it is done."""

    phase: Phase = Phase.DONE
    text: str | None = None


class Changes:
    """Notes changes of one cluster."""

    def __init__(self, audit: AuditFile, name_servers: str) -> None:
        self._audit = audit
        self._name_servers = name_servers

    @asynccontextmanager
    async def noted(self, person: Person | None, action: str, why: str, **facts: Any) -> AsyncIterator[Ending]:
        """Run the block between the two lines. Raises ConfigError without a reason, AuditFailed when the first line
        cannot be written; then the block does not run.
        """
        if not why:
            raise ConfigError("give a reason; it is written to the audit file")
        name = person.in_records if person is not None else None
        change = self._audit.decision(name, action=action, why=why, name_servers=self._name_servers, **facts)
        change.note(Phase.INTENDED)
        ending = Ending()
        try:
            yield ending
        except (TimedOut, Unreachable) as error:
            change.note(Phase.UNKNOWN, str(error))
            raise
        except GantryError as error:
            change.note(Phase.REFUSED, str(error))
            raise
        change.note(ending.phase, ending.text)
