"""The database of a Transactions object, once it is known: asked by a thread, or on an event loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.message import properties
from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.rng import Rng, SystemRng
from gantrymq.sql.rows import transaction_id
from gantrymq.sql.rows.outbox_statements import OutboxStatements
from gantrymq.sql.rows.outbox_table import order_ddl, outbox_ddl
from gantrymq.sql.rows.place import Place
from gantrymq.sql.rows.tables import ddl
from gantrymq.sql.rules.claim import Failed, Query, Rows
from gantrymq.sql.rules.creation import add, create
from gantrymq.sql.rules.outcomes import IDENTITY_BYTES, Outcomes, Statement, failed
from gantrymq.sql.rules.relay import find, find_order, unordered
from gantrymq.sql.rules.runner import perform, run_blocking
from gantrymq.sql.rules.steps import Away
from gantrymq.sql.transaction.database import AsyncDatabase, BlockingDatabase, Counted, Database
from gantrymq.sql.transaction.settings import TransactionsConfig
from gantrymq.sql.transaction.waiting import Waiting
from gantrymq.sql.upkeep.cleaning import DAY_S


class LocalSteps:
    """What ``Local`` and ``AsyncLocal`` do, as steps."""

    identity: str
    outcomes: Outcomes
    outbox: OutboxStatements
    """Where there are ``rows``."""
    rows = False
    """Messages may become rows: with ``when_broker_is_away`` other than ``refuse``, or with an ordering key."""

    def __init__(self, port: AsyncDatabase, settings: TransactionsConfig, clock: Clock, rng: Rng) -> None:
        self.settings: Final = settings
        self.clock = clock
        self.rng: Final = rng
        self._port = port
        self.waiting: Final = Waiting(clock, settings)
        self.no_order = unordered(settings.outbox_table)
        """Why no message may have an ordering key, unless it may."""

    async def _open(self) -> None:
        """Find out what the database is. Raises ConfigError when the outcome table is missing."""
        self.outcomes = Outcomes(
            await self._port.dialect(), self.settings.group, self.settings.table,
            round(self.settings.claim_timeout * 1000),
        )  # fmt: skip
        self.identity = await perform(self.outcomes.identify(self.rng.token(IDENTITY_BYTES).hex()), self._alone)
        await perform(self.outcomes.find_place(), self._alone)
        if self.settings.away is not Away.REFUSE:
            await self.open_outbox()
            return
        try:
            if await self.find_order():
                await self.open_outbox()
        except ConfigError as error:  # which concerns messages with ordering keys only
            self.no_order = str(error)

    async def open_outbox(self) -> None:
        """Find out where the outbox is. Raises ConfigError when the table is missing."""
        table, dialect = self.settings.outbox_table, self.outcomes.dialect
        place = await perform(find(dialect.kind, table), self._alone)
        self.use_outbox(place, ordered=await self.find_order())

    async def find_order(self) -> bool:
        """Whether the outbox has the columns that ordering keys need. Raises ConfigError when nobody says it."""
        return await perform(find_order(self.outcomes.dialect.kind, self.settings.outbox_table), self._alone)

    def use_outbox(self, place: Place, *, ordered: bool) -> None:
        dialect, table = self.outcomes.dialect, self.settings.outbox_table
        self.outbox, self.rows = OutboxStatements(dialect, table, place, ordered=ordered), True

    def check_order(self) -> None:
        """Raises ConfigError when no message may have an ordering key."""
        if not self.rows or not self.outbox.ordered:
            raise ConfigError(self.no_order)

    async def together(self, statements: Sequence[Counted]) -> bool | Failed:
        """Statements in one transaction on a connection of their own."""
        try:
            return await self._port.together(statements)
        except Exception as error:  # noqa: BLE001 - ``failed`` raises what no database said
            return failed(error)

    async def ask_outbox(self, statement: Statement) -> Rows | Failed:
        """A statement about the outbox on a connection of its own."""
        return await self._alone([statement])

    async def _create_tables(self) -> None:
        kind = (await self._port.dialect()).kind
        outbox = self.settings.outbox_table
        tables = ddl(kind, self.settings.table, self.settings.inbox_table)
        await perform(create([*tables, *outbox_ddl(kind, outbox)]), self._port.alone)
        if not await perform(find_order(kind, outbox), self._alone):  # it was made before there were ordering keys
            await perform(add(order_ddl(kind, outbox)), self._port.alone)
        await self._open()

    async def _alone(self, statements: Sequence[Statement]) -> Rows | Failed:
        """Statements on a connection of their own; what a database says against it is a value."""
        try:
            return await self._port.alone(statements)
        except Exception as error:  # noqa: BLE001 - ``failed`` raises what no database said
            return failed(error)

    async def answer(self, query: Query, which: str) -> Rows | Failed:
        """The answer to a query of the claim."""
        return await self._alone(self.outcomes.query(query, which))

    # For a local transaction that begins now.

    def new_id(self) -> str:
        return transaction_id.make(self.clock.wall_ms(), self.rng.below(transaction_id.CHANCES))

    def marks_of(self, which: str) -> dict[str, str]:
        """The properties of every half message of a local transaction."""
        return {
            properties.LOCAL_TRANSACTION: f"{which} {self.identity}",
            properties.CHECK_IMMUNITY_SECONDS: str(math.ceil(self.settings.longest_transaction)),
        }

    def last_moment(self) -> float:
        """When it can no longer commit, on the monotonic clock, because the mark of a check-back may have been deleted;
        see ``cleaning``."""
        return self.clock.monotonic() + max(self.settings.longest_transaction, DAY_S)


class Local(LocalSteps):
    """In a thread, or in a greenlet of SQLAlchemy on an event loop."""

    def __init__(self, database: Database, settings: TransactionsConfig) -> None:
        """Asks the database what it is. Raises ConfigError when the outcome table is missing."""
        super().__init__(BlockingDatabase(database), settings, SystemClock(), SystemRng())
        self.database: Final = database
        run_blocking(self._open)

    def ask(self, query: Query, which: str) -> Rows | Failed:
        """For check-backs: a query of the claim."""
        return run_blocking(self.answer, query, which)


def create_tables(database: Database, settings: TransactionsConfig) -> None:
    """Create our tables unless they exist, and the row with the database's identity."""
    run_blocking(LocalSteps(BlockingDatabase(database), settings, SystemClock(), SystemRng())._create_tables)


class AsyncLocal(LocalSteps):
    """On an event loop. Call ``open`` first."""

    def __init__(
        self, database: AsyncDatabase, settings: TransactionsConfig, clock: Clock | None = None, rng: Rng | None = None
    ) -> None:
        super().__init__(database, settings, clock or SystemClock(), rng or SystemRng())
        self.database: Final = database

    async def open(self) -> None:
        """Find out what the database is. Raises ConfigError when the outcome table is missing."""
        await self._open()

    async def create_tables(self) -> None:
        """Create our tables unless they exist, and the row with the database's identity."""
        await self._create_tables()
