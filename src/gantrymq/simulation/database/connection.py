"""The client's side of the simulated database: latency, and connections that are lost around a statement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gantrymq.errors import TransactionBroken
from gantrymq.simulation.database.errors import LOST, Error
from gantrymq.simulation.database.server import SimDatabase
from gantrymq.simulation.database.statements import Language, Rows
from gantrymq.simulation.database.tables import Isolation
from gantrymq.sql.connections.async_drivers import AsyncConnectionDatabase
from gantrymq.sql.rows.dialect import DatabaseKind, Dialect
from gantrymq.sql.rules.outcomes import Counted

DIALECT: Final = Dialect(DatabaseKind.POSTGRESQL, "qmark")
NOTICED_WITHIN_S: Final = 2.0
"""So long the server needs, at most, to notice that a connection is lost."""
GIVEN_UP_WITHIN_S: Final = 3.0
"""So long a client waits, at most, for a database that it does not reach."""


@dataclass(slots=True)
class LineFaults:
    """Between processes and databases. Chances are per statement."""

    latency_s: float = 0.0005
    lost_before: float = 0.0
    """The statement does not arrive."""
    lost_after: float = 0.0
    """It is executed, and the answer does not arrive."""
    late: float = 0.0
    """The client gives the connection up, and the server executes the statement some time later."""


CALM: Final = LineFaults()


@dataclass(slots=True)
class Line:
    """The way of one process to its database."""

    database: SimDatabase
    language: Language
    isolation: Isolation = Isolation.READ_COMMITTED
    faults: LineFaults = field(default_factory=LineFaults)
    joined: Callable[[], bool] = lambda: True
    alive: Callable[[], bool] = lambda: True
    """Whether the process lives. What Python unwinds of a dead one must not reach the database."""
    connections: list[SimConnection] = field(default_factory=list)
    """All that there were."""

    async def connect(self) -> SimConnection:
        if not self.alive():
            raise asyncio.CancelledError
        await asyncio.sleep(2 * self.faults.latency_s)
        if not self.joined():
            await asyncio.sleep(self.database.rng.uniform(0, GIVEN_UP_WITHIN_S))
            raise Error(LOST, "the database does not answer")
        made = SimConnection(self)
        self.connections.append(made)
        return made

    def cut(self) -> None:
        """The process has ended, and the server learns it now."""
        for connection in self.connections:
            connection.cut()


class SimConnection:
    """One connection; for one task at a time."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._database = line.database
        self._session = line.database.connect(line.isolation)
        self._lost = False
        self.autocommit = False

    @property
    def failed(self) -> bool:
        """Whether a statement of the transaction has failed, or the connection is known to be lost."""
        return self._lost or self._session.failed

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        work = self._line.language.read(statement, tuple(parameters or ()))
        run = self._database.execute_alone if self.autocommit else self._database.execute
        return await self._ask(lambda: run(self._session, work))

    async def commit(self) -> None:
        await self._ask(lambda: self._database.commit(self._session))

    async def rollback(self) -> None:
        await self._ask(lambda: self._database.roll_back(self._session))

    async def close(self) -> None:
        if self._line.alive():
            self.cut()

    def cut(self) -> None:
        """What the server has begun, it ends; nothing follows."""
        self._lost = True
        self._database.lose(self._session)

    async def _ask(self, send: Callable[[], asyncio.Future[Rows]]) -> Rows:
        if not self._line.alive():
            raise asyncio.CancelledError
        if self._lost:
            raise Error(LOST, "the connection is closed")
        faults, database = self._line.faults, self._database
        chance = database.rng.random()
        await asyncio.sleep(faults.latency_s)
        if chance < faults.lost_before or not self._line.joined():
            raise await self._give_up("statement lost on its way to the database")
        chance -= faults.lost_before
        if 0 <= chance < faults.late:
            raise await self._give_up("statement executed after its client gave up", send)
        chance -= faults.late
        rows = await send()
        await asyncio.sleep(faults.latency_s)
        if 0 <= chance < faults.lost_after or not self._line.joined():
            raise await self._give_up("answer of a database lost")
        return rows

    async def _give_up(self, counted: str, late: Callable[[], asyncio.Future[Rows]] | None = None) -> Error:
        """The server notices it some time later, and may execute a last statement before."""
        database = self._database
        database.injected[counted] += 1
        self._lost = True

        def notice() -> None:
            if late is not None and not self._session.ended:
                late()
            database.lose(self._session)

        database.loop.call_later(database.rng.uniform(0, NOTICED_WITHIN_S), notice)
        if not self._line.joined():
            await asyncio.sleep(database.rng.uniform(0, GIVEN_UP_WITHIN_S))
        return Error(LOST, "the connection was lost")


class SimDriver:
    """One transaction on one connection; what AsyncPsycopgDriver is for psycopg."""

    mark = ""
    tells_later: Final = False
    sees_all: Final = False

    def __init__(self, connection: SimConnection) -> None:
        self._connection = self.held = connection

    def dialect(self) -> Dialect:
        return DIALECT

    def watch(self, note: object) -> None:
        """Transactions execute their savepoints by themselves here."""

    def unwatch(self) -> None: ...

    async def begin(self) -> None:
        """The server begins it with the first statement."""

    async def verify(self, proved: bool) -> None:
        if self._connection.failed:
            raise TransactionBroken("a statement of this transaction has failed")

    async def verify_at_rollback(self) -> None:
        """Nothing commits by itself here."""

    def check_runs(self) -> None:
        """Nobody ends a transaction here but its block."""

    async def run(self, statement: str, parameters: Any) -> Rows:
        return await self._connection.execute(statement, parameters)

    async def execute(self, statement: tuple[str, tuple[Any, ...]]) -> Rows:
        return await self._connection.execute(*statement)

    async def insert(self, statement: tuple[str, tuple[Any, ...]]) -> int:
        return len(await self._connection.execute(*statement))

    async def commit(self) -> None:
        await self._connection.commit()

    async def rollback(self) -> None:
        await self._connection.rollback()

    async def stand_alone(self) -> None:
        self._connection.autocommit = True

    async def close(self) -> None:
        await self._connection.close()


class DatabaseDoor(AsyncConnectionDatabase):
    """A new simulated connection for every call."""

    driver_of = staticmethod(SimDriver)

    def __init__(self, line: Line) -> None:
        super().__init__(line.connect)

    async def dialect(self) -> Dialect:
        return DIALECT

    async def together(self, statements: Sequence[Counted]) -> bool:
        driver = self.driver_of(await self.connect())
        try:
            for text, parameters, count in statements:
                if await driver.insert((text, parameters)) != count:
                    await driver.rollback()
                    return False
            await driver.commit()
        finally:
            await driver.close()
        return True
