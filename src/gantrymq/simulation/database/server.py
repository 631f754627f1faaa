"""One database server: sessions, commits that become durable, crashes, and failover to a read-only replica."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from gantrymq.simulation.database.errors import ABORTED, LOST, REFUSED, Error
from gantrymq.simulation.database.locks import RowLocks
from gantrymq.simulation.database.statements import Rows, Statement
from gantrymq.simulation.database.tables import Data, Isolation, Work
from gantrymq.testing.local.node import Node


class Session:
    """A connection as the server knows it."""

    def __init__(self, isolation: Isolation) -> None:
        self.isolation = isolation
        self.work: Work | None = None
        self.answer: asyncio.Future[Rows] | None = None
        """Of the last statement."""
        self.busy = False
        """A statement is running, whether anybody waits for its answer or not."""
        self.ended = False

    @property
    def failed(self) -> bool:
        """Whether the transaction can only be rolled back."""
        return self.work is not None and self.work.failed


class SimDatabase:
    """A server with its disk. ``crash`` loses what was not committed; a commit under way is durable or it is not."""

    def __init__(
        self, name: str, address: str, loop: asyncio.AbstractEventLoop, rng: random.Random, injected: Counter[str]
    ) -> None:
        self.name = name
        self.address = address
        self.loop = loop
        self.rng = rng
        self.injected = injected
        self.data = Data()
        self.running = False
        self.statement_s = 0.0005
        """What a statement takes on the server; a commit that writes takes twice as long."""
        self.crash_in_commit = False
        """Crash in the next commit that writes: before it is durable, or before its client is told."""
        self._replica_at: int | None = None
        self._sessions: list[Session] = []
        self.start()

    # Life.

    def start(self) -> None:
        """Again, with all that is committed; nothing happens while it runs."""
        if self.running:
            return
        self._node = Node(self.name, self.loop)
        self._locks = RowLocks(self.loop)
        self.running = True

    def crash(self) -> None:
        """The process ends. Clients lose their connections, and do not know about commits that were under way."""
        self._node.kill()
        self.running = self.crash_in_commit = False
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.ended = True
            if session.answer is not None and not session.answer.done():
                self.injected["statement lost with its database"] += 1
                session.answer.set_exception(Error(LOST, "server closed the connection unexpectedly"))

    def become_replica(self, behind: int) -> None:
        """From now on read-only, and without the last ``behind`` commits. They come with ``become_primary``."""
        self._replica_at = max(0, self.data.now - behind)

    def become_primary(self) -> None:
        self._replica_at = None

    # Sessions.

    def connect(self, isolation: Isolation) -> Session:
        if not self.running:
            raise Error(REFUSED, "connection refused")
        session = Session(isolation)
        self._sessions.append(session)
        return session

    def lose(self, session: Session) -> None:
        """The connection is gone: roll back, as soon as the statement that runs has ended."""
        if session.ended:
            return
        session.ended = True
        self._sessions.remove(session)
        if not session.busy:
            self._roll_back(session)

    def execute(self, session: Session, statement: Statement) -> asyncio.Future[Rows]:
        """Run a statement in the transaction of the session, which begins with it if there is none."""
        return self._start(session, lambda: self._run(session, statement))

    def execute_alone(self, session: Session, statement: Statement) -> asyncio.Future[Rows]:
        """Run a statement in a transaction of its own, as in autocommit."""

        async def run() -> Rows:
            rows = await self._run(session, statement)
            await self._commit(session)
            return rows

        return self._start(session, run, alone=True)

    def commit(self, session: Session) -> asyncio.Future[Rows]:
        """A crash comes before the moment in which all of it is durable, or behind it."""
        return self._start(session, lambda: self._commit(session))

    def roll_back(self, session: Session) -> asyncio.Future[Rows]:
        async def run() -> Rows:
            self._roll_back(session)
            return []

        return self._start(session, run)

    def _start(
        self, session: Session, job: Callable[[], Awaitable[Rows]], *, alone: bool = False
    ) -> asyncio.Future[Rows]:
        """It ends on the server, whether anybody waits for the answer or not."""
        if session.ended:
            raise Error(LOST, "the connection is lost")
        session.busy = True
        session.answer = answer = self.loop.create_future()
        self._node.start(self._serve(session, job, answer, alone))
        return answer

    async def _serve(
        self, session: Session, job: Callable[[], Awaitable[Rows]], answer: asyncio.Future[Rows], alone: bool
    ) -> None:
        try:
            await asyncio.sleep(self.statement_s)
            rows = await job()  # a crash ends it here, and nothing below happens
        except Exception as error:  # noqa: BLE001 what is no Error is a defect of ours, and is raised in the client
            if alone:
                self._roll_back(session)
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # heard of, also when nobody waits any more
        else:
            if not answer.done():
                answer.set_result(rows)
        session.busy = False
        if session.ended:
            self._roll_back(session)

    async def _run(self, session: Session, statement: Statement) -> Rows:
        if session.work is None:
            session.work = Work(self.data, self._locks, session.isolation, replica_at=self._replica_at)
        work = session.work
        if work.failed and not statement.rescues:
            raise Error(ABORTED, "current transaction is aborted, commands ignored until end of transaction block")
        work.begin_statement()
        try:
            return await statement.run(work)
        except Error:
            work.failed = True
            raise

    async def _commit(self, session: Session) -> Rows:
        work = session.work
        if work is None:
            return []
        try:
            if work.failed:
                raise Error(ABORTED, "the transaction had failed: it is rolled back")
            if work.writes:
                await asyncio.sleep(self.statement_s)
            crashes = self.crash_in_commit and work.writes
            if crashes and self.rng.random() < 0.5:
                self.crash()
                raise Error(LOST, "the database has crashed")
            work.commit()
            if crashes:
                self.crash()
        except Error:
            work.roll_back()
            raise
        finally:
            session.work = None
        return []

    def _roll_back(self, session: Session) -> None:
        work, session.work = session.work, None
        if work is not None:
            work.roll_back()
