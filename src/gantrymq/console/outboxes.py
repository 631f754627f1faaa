"""The outboxes of services: messages that wait for a broker, as their databases say it.

A database that hangs must not make the page hang. So a question has a limit, only one is under way for each database,
and a page that comes meanwhile shows what was answered last, with its age.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import Clock
from gantrymq.sql.rows.outbox_table import OUTBOX
from gantrymq.sql.upkeep.outbox import outbox_groups

PATIENCE_S: Final = 2.0
"""How long a page waits for a database."""
FRESH_S: Final = 2.0
"""An answer that is younger is shown without another question."""


@dataclass(frozen=True, slots=True)
class OutboxGroup:
    """A producer group whose messages wait."""

    group: str
    rows: int
    oldest_s: float


@dataclass(slots=True)
class Outbox:
    """One database, and what it said last."""

    name: str
    """Without a password."""
    database: Any
    groups: Sequence[OutboxGroup] = ()
    problem: str = ""
    """Why the last question was not answered."""
    answered_at: float | None = None
    """On the monotonic clock."""
    asking: asyncio.Task[None] | None = field(default=None, repr=False)

    age_s: float = 0.0
    """How old the answer is."""


class Outboxes:
    """Those that the settings of the console name."""

    def __init__(self, urls: Sequence[str], clock: Clock) -> None:
        """Addresses of databases as SQLAlchemy writes them. Raises ConfigError."""
        self._outboxes: Final = [_outbox(url) for url in urls]
        self._clock = clock

    async def shown(self) -> Sequence[Outbox]:
        """What a page shows, after ``PATIENCE_S`` at the latest."""
        tasks = [task for one in self._outboxes if (task := self._question(one)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_S)
        for one in self._outboxes:
            if one.asking is not None and not one.asking.done():
                one.problem = f"the database has not answered within {PATIENCE_S:g} s."
            if one.answered_at is not None:
                one.age_s = self._clock.monotonic() - one.answered_at
        return self._outboxes

    def _question(self, one: Outbox) -> asyncio.Task[None] | None:
        """The question that is under way, or a new one. None: the last answer is young enough."""
        if one.asking is not None and not one.asking.done():
            return one.asking
        young = one.answered_at is not None and self._clock.monotonic() - one.answered_at < FRESH_S
        if young and not one.problem:
            return None
        one.asking = asyncio.get_running_loop().create_task(self._ask(one))
        return one.asking

    async def _ask(self, one: Outbox) -> None:
        try:
            found = await asyncio.to_thread(partial(outbox_groups, one.database, OUTBOX, self._clock.wall_ms()))
        except Exception as error:  # noqa: BLE001 - whatever it is, the page shows it and the console goes on
            one.problem = (str(error).strip().splitlines() or [type(error).__name__])[0]
            return
        one.groups = [OutboxGroup(*row) for row in found]
        one.problem, one.answered_at = "", self._clock.monotonic()


def _outbox(url: str) -> Outbox:
    try:
        from sqlalchemy import create_engine
        from sqlalchemy.exc import ArgumentError

        from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase
    except ModuleNotFoundError as error:
        raise ConfigError("the setting outboxes needs SQLAlchemy: pip install 'gantrymq[sql]'") from error
    try:
        engine = create_engine(url)
    except (ArgumentError, ImportError) as error:
        raise ConfigError(f"outboxes: not a usable address of a database: {error}") from error
    return Outbox(engine.url.render_as_string(hide_password=True), SqlAlchemyDatabase(engine))
