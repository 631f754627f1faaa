"""The simulated database behaves as real ones do: the same tests run in it, in PostgreSQL and in SQLite."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import pytest

from gantrymq.simulation.database.connection import DIALECT, Line, LineFaults
from gantrymq.simulation.database.server import SimDatabase
from gantrymq.simulation.database.tables import Isolation
from gantrymq.simulation.sql.services import COUNT, ORDER, PLACE, TABLES, TAKE, language
from gantrymq.simulation.world.loop import VirtualLoop
from gantrymq.sql.rows import transaction_id
from gantrymq.sql.rows.dialect import KINDS, Dialect
from gantrymq.sql.rows.failures import Failure, read_failure
from gantrymq.sql.rows.tables import CLEANED, DATABASE, ddl
from gantrymq.sql.rules.claim import Query
from gantrymq.sql.rules.outcomes import Outcomes
from gantrymq.testing.local.node import own_tasks
from tests.sql.databases import Place

GROUP = "payments"
CLAIM_TIMEOUT_MS = 300
READ_COMMITTED, SNAPSHOT, SERIALIZABLE = Isolation
OLD, NEW = (transaction_id.make(ms, 0) for ms in (1_000, 2_000_000_000_000))


class Connection(Protocol):
    """A connection of any of the databases. A transaction begins with its first statement."""

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Sequence[Sequence[Any]]: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    async def close(self) -> None: ...


class RealConnection:
    """A DB-API connection in a thread of its own."""

    def __init__(self, place: Place, isolation: Isolation | None, dialect: Dialect) -> None:
        """``isolation``: None for autocommit."""
        self._dialect = dialect
        self._thread = ThreadPoolExecutor(1)
        self._closed = False
        self._begins = isolation is not None and place.kind == "sqlite"
        if place.kind == "sqlite":
            wait_s = CLAIM_TIMEOUT_MS / 1000 if isolation is None else 20
            self._connection = place.connect(isolation_level=None, timeout=wait_s, check_same_thread=False)
        else:
            import psycopg

            self._connection = place.connect(autocommit=isolation is None)
            if isolation is not None:
                self._connection.isolation_level = psycopg.IsolationLevel[
                    {SNAPSHOT: "REPEATABLE_READ"}.get(isolation, isolation.name)
                ]

    async def _call(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
        def run() -> Sequence[Sequence[Any]]:
            if self._begins and not self._connection.in_transaction:
                self._connection.execute("BEGIN")
            written = statement if "%s" in statement else self._dialect.written(statement)
            cursor = self._connection.execute(written, tuple(parameters) or None or ())
            return cursor.fetchall() if cursor.description else []

        rows: Sequence[Sequence[Any]] = await self._call(run)
        return rows

    async def commit(self) -> None:
        await self._call(self._connection.commit)

    async def rollback(self) -> None:
        await self._call(self._connection.rollback)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._call(self._connection.close)
            self._thread.shutdown()


class UnderTest:
    """A database under test, with the tables of the outcomes and of the services."""

    kind = "simulated"

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.outcomes = Outcomes(dialect, GROUP, claim_timeout_ms=CLAIM_TIMEOUT_MS)
        self._opened: list[Connection] = []

    def run(self, test: Callable[[Any], Awaitable[None]]) -> None:
        """Play one test."""
        raise NotImplementedError

    async def _make(self, isolation: Isolation | None) -> Connection:
        raise NotImplementedError

    async def connect(self, isolation: Isolation | None = READ_COMMITTED) -> Connection:
        """``isolation``: None for autocommit."""
        made = await self._make(isolation)
        self._opened.append(made)
        return made

    async def alone(self, *statements: tuple[str, Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """On a connection of its own in autocommit; the rows of the last statement."""
        connection = await self.connect(None)
        rows: Sequence[Sequence[Any]] = ()
        for statement, parameters in statements:
            rows = await connection.execute(statement, parameters)
        await connection.close()
        return rows

    async def claim(self, which: str) -> None:
        await self.alone(*self.outcomes.query(Query.CLAIM, which))

    async def find(self, which: str) -> dict[str, Sequence[Any]]:
        return {row[0]: row for row in await self.alone(*self.outcomes.query(Query.FIND, which))}

    async def play(self, test: Callable[[Any], Awaitable[None]]) -> None:
        for statement in (*ddl(self.dialect.kind), *TABLES):
            await self.alone((statement, ()))
        await self.alone(*((PLACE, (item, 10)) for item in ("apples", "pears")))
        for row, note in ((DATABASE, "it"), (CLEANED, "")):
            await self.alone((self.outcomes._statements.insert, (row, 0, note)))
        self.outcomes.identity = "it"  # outcomes are inserted only where it is found
        try:
            await test(self)
        finally:
            for connection in self._opened:
                await connection.close()


class RealUnderTest(UnderTest):
    def __init__(self, place: Place) -> None:
        postgresql = place.kind == "postgresql"
        super().__init__(Dialect(KINDS[place.kind], "format" if postgresql else "qmark"))
        self.kind = place.kind
        self._place = place
        if not postgresql:
            place.execute("PRAGMA journal_mode = WAL")

    def run(self, test: Callable[[Any], Awaitable[None]]) -> None:
        asyncio.run(self.play(test))

    async def _make(self, isolation: Isolation | None) -> Connection:
        return RealConnection(self._place, isolation, self.dialect)


class SimUnderTest(UnderTest):
    def __init__(self) -> None:
        super().__init__(DIALECT)
        self.loop = VirtualLoop()
        own_tasks(self.loop)
        self.faults = LineFaults()
        self.server = SimDatabase("database", "10.0.3.1", self.loop, random.Random(1), Counter())

    def run(self, test: Callable[[Any], Awaitable[None]]) -> None:
        asyncio.set_event_loop(None)
        self.loop.run_until_complete(self.play(test))
        self.loop.close()

    async def _make(self, isolation: Isolation | None) -> Connection:
        line = Line(self.server, language(lambda: 0, CLAIM_TIMEOUT_MS / 1000), isolation or READ_COMMITTED, self.faults)
        made = await line.connect()
        made.autocommit = isolation is None
        return made


@pytest.fixture(params=["simulated", "postgresql", "sqlite"])
def tested(request: pytest.FixtureRequest) -> UnderTest:
    if request.param == "simulated":
        return SimUnderTest()
    return RealUnderTest(request.getfixturevalue(request.param))


@pytest.fixture
def simulated() -> SimUnderTest:
    return SimUnderTest()


async def failure_of(work: Awaitable[object]) -> Failure:
    with pytest.raises(Exception) as caught:
        await work
    return read_failure(caught.value)


async def count(connection: Connection, item: str = "apples") -> int:
    (row,) = await connection.execute(COUNT, (item,))
    return int(row[1])


def not_in(tested: UnderTest, *kinds: str) -> None:
    if tested.kind in kinds:
        pytest.skip(f"{tested.kind} has no such isolation")


def test_only_what_is_committed_is_seen_by_others(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        one = await tested.connect()
        await one.execute(*tested.outcomes.insert(NEW))
        assert NEW not in await tested.find(NEW)
        await one.commit()
        assert (await tested.find(NEW))[NEW][1:] == (1, GROUP)
        await one.execute(*tested.outcomes.insert(OLD))
        await one.rollback()
        assert OLD not in await tested.find(OLD)

    tested.run(test)


def test_a_connection_that_is_closed_in_a_transaction_rolls_it_back(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        one = await tested.connect()
        await one.execute(*tested.outcomes.insert(NEW))
        await one.close()
        await tested.claim(NEW)
        assert (await tested.find(NEW))[NEW][1] == 2

    tested.run(test)


@pytest.mark.parametrize("commits", [True, False])
def test_an_insert_of_the_same_key_waits_for_who_was_first(tested: UnderTest, commits: bool) -> None:
    async def test(tested: UnderTest) -> None:
        first, second = await tested.connect(), await tested.connect()
        await first.execute(*tested.outcomes.insert(NEW))
        waits = asyncio.ensure_future(second.execute(*tested.outcomes.insert(NEW)))
        await asyncio.sleep(0.05)
        await (first.commit() if commits else first.rollback())
        if commits:
            assert await failure_of(waits) in (Failure.DUPLICATE, Failure.CONFLICT)
        else:
            await waits
            await second.commit()
            assert NEW in await tested.find(NEW)

    tested.run(test)


def test_a_claim_waits_for_a_local_transaction_only_so_long(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        one = await tested.connect()
        await one.execute(*tested.outcomes.insert(NEW))
        assert await failure_of(tested.claim(NEW)) is Failure.LOCKED
        await one.commit()
        assert await failure_of(tested.claim(NEW)) is Failure.DUPLICATE
        assert (await tested.find(NEW))[NEW][1] == 1

    tested.run(test)


@pytest.mark.parametrize("isolation", Isolation)
def test_a_local_transaction_that_was_claimed_cannot_commit(tested: UnderTest, isolation: Isolation) -> None:
    async def test(tested: UnderTest) -> None:
        one = await tested.connect(isolation)
        await count(one)
        await tested.claim(NEW)
        failure = await failure_of(one.execute(*tested.outcomes.insert(NEW)))
        assert failure in (Failure.DUPLICATE, Failure.CONFLICT)

    tested.run(test)


def test_a_claim_below_the_horizon_inserts_nothing(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        horizon = transaction_id.first_of(1_000_000)
        for moved in (horizon, OLD):  # it never moves back
            await tested.alone(*tested.outcomes.move_horizon(moved)[1])
        assert await failure_of(tested.claim(OLD)) is Failure.DUPLICATE
        found = await tested.find(OLD)
        assert OLD not in found and found[CLEANED][2] == horizon
        await tested.claim(NEW)

    tested.run(test)


def test_old_rows_are_deleted_in_batches_and_nothing_else(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        old = [transaction_id.make(ms, 0) for ms in range(3)]
        for which in (*old, NEW):
            await tested.alone(tested.outcomes.insert(which))
        batch, horizon = tested.outcomes.cleaning, transaction_id.first_of(1_000)
        for first, last, count in (("0", old[1], 2), (old[1], old[2], 1)):
            assert [tuple(row) for row in await tested.alone((batch.edge, (first, 2, horizon)))] == [(last,)]
            rows = await tested.alone((batch.count, (first, last)))
            assert [tuple(row) for row in rows] == [(count,)]
            await tested.alone((batch.delete, (first, last)))
            assert [which in await tested.find(which) for which in old] == [which > last for which in old]
        assert [tuple(row) for row in await tested.alone((batch.edge, (old[2], 2, horizon)))] == [(None,)]
        assert set(await tested.find(NEW)) == {NEW, CLEANED, DATABASE}

    tested.run(test)


def test_a_missing_table_is_named_as_such(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        missing = Outcomes(tested.dialect, GROUP, "gantrymq_outcomes_of_nobody")
        assert await failure_of(tested.alone(*missing.query(Query.FIND, NEW))) is Failure.NO_TABLE

    if isinstance(tested, SimUnderTest):
        pytest.skip("the simulated database knows the statements of one table")
    tested.run(test)


def test_a_savepoint_takes_back_what_came_after_it(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        one = await tested.connect()
        await one.execute(TAKE, (-1, "apples"))
        await one.execute("SAVEPOINT inner_1")
        await one.execute(TAKE, (-5, "apples"))
        await one.execute(TAKE, (-5, "pears"))
        await one.execute("ROLLBACK TO SAVEPOINT inner_1")
        await one.commit()
        assert (await count(one), await count(one, "pears")) == (9, 10)

    tested.run(test)


def test_a_transaction_with_a_failed_statement_can_only_go_back_to_a_savepoint(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        one = await tested.connect()
        await one.execute(TAKE, (-1, "apples"))
        await one.execute("SAVEPOINT inner_1")
        assert await failure_of(one.execute(PLACE, ("apples", 1))) is Failure.DUPLICATE
        await failure_of(count(one))
        await one.execute("ROLLBACK TO SAVEPOINT inner_1")
        await one.commit()
        assert await count(one) == 9

    not_in(tested, "sqlite")
    tested.run(test)


def test_read_committed_sees_what_others_commit_and_snapshots_do_not(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        committed, snapshot = await tested.connect(READ_COMMITTED), await tested.connect(SNAPSHOT)
        assert (await count(committed), await count(snapshot)) == (10, 10)
        await tested.alone((TAKE, (-3, "apples")))
        assert (await count(committed), await count(snapshot)) == (7, 10)
        await committed.execute(TAKE, (-1, "apples"))
        await committed.commit()
        assert await count(committed) == 6

    not_in(tested, "sqlite")
    tested.run(test)


@pytest.mark.parametrize("isolation", [SNAPSHOT, SERIALIZABLE])
def test_a_row_that_was_changed_since_the_snapshot_is_a_conflict(tested: UnderTest, isolation: Isolation) -> None:
    async def test(tested: UnderTest) -> None:
        one = await tested.connect(isolation)
        await count(one, "pears")
        await tested.alone((TAKE, (-3, "apples")))
        assert await failure_of(one.execute(TAKE, (-1, "apples"))) is Failure.CONFLICT

    tested.run(test)


def test_two_that_read_what_the_other_one_writes_do_not_both_commit(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        async def swap(connection: Connection, read: str, written: str) -> None:
            await connection.execute(TAKE, (await count(connection, read), written))
            await connection.commit()

        one, other = await tested.connect(SERIALIZABLE), await tested.connect(SERIALIZABLE)
        assert (await count(one), await count(other)) == (10, 10)
        await swap(one, "apples", "pears")
        assert await failure_of(swap(other, "pears", "apples")) is Failure.CONFLICT

    tested.run(test)


@pytest.mark.slow
def test_of_two_that_wait_for_each_other_one_fails(tested: UnderTest) -> None:
    async def test(tested: UnderTest) -> None:
        one, other = await tested.connect(), await tested.connect()
        await one.execute(TAKE, (-1, "apples"))
        await other.execute(TAKE, (-1, "pears"))
        both = (one.execute(TAKE, (-1, "pears")), other.execute(TAKE, (-1, "apples")))

        async def undone(connection: Connection, statement: Awaitable[object]) -> Failure | None:
            try:
                await statement
            except Exception as error:
                await connection.rollback()
                return read_failure(error)
            return None

        results = await asyncio.gather(undone(one, both[0]), undone(other, both[1]))
        assert sorted(results, key=str) == [Failure.CONFLICT, None]

    not_in(tested, "sqlite")
    tested.run(test)


# What only the simulated one can be asked to do.


def test_a_crash_loses_what_was_not_committed(simulated: SimUnderTest) -> None:
    async def test(tested: SimUnderTest) -> None:
        one = await tested.connect()
        await one.execute(TAKE, (-1, "apples"))
        await one.commit()
        await one.execute(TAKE, (-1, "apples"))
        waits = asyncio.ensure_future((await tested.connect()).execute(TAKE, (-1, "apples")))
        await asyncio.sleep(1)
        tested.server.crash()
        assert await failure_of(waits) is Failure.DISCONNECTED
        assert await failure_of(one.commit()) is Failure.DISCONNECTED
        assert await failure_of(tested.connect()) is Failure.DISCONNECTED
        tested.server.start()
        assert await count(await tested.connect()) == 9

    simulated.run(test)


def test_who_commits_during_a_crash_does_not_know_and_the_database_does(simulated: SimUnderTest) -> None:
    async def test(tested: SimUnderTest) -> None:
        outcomes = set()
        for number in range(40):
            one = await tested.connect()
            name = f"order {number}"
            await one.execute(ORDER, (name,))
            tested.loop.call_later(number * 0.0001, tested.server.crash)
            try:
                await one.commit()
                told = True
            except Exception as error:
                assert read_failure(error) is Failure.DISCONNECTED
                told = False
            await asyncio.sleep(1)
            tested.server.start()
            there = tested.server.data.table("orders").at(name, tested.server.data.now) is not None
            assert there or not told
            outcomes.add((told, there))
        assert outcomes == {(False, False), (False, True), (True, True)} or outcomes == {(False, False), (True, True)}

    simulated.run(test)


@pytest.mark.parametrize(("fault", "executed"), [("lost_before", False), ("lost_after", True), ("late", True)])
def test_a_statement_whose_connection_is_lost_may_have_been_executed(
    simulated: SimUnderTest, fault: str, executed: bool
) -> None:
    async def test(tested: SimUnderTest) -> None:
        one = await tested.connect(None)
        setattr(tested.faults, fault, 1.0)
        assert await failure_of(one.execute(TAKE, (-1, "apples"))) is Failure.DISCONNECTED
        setattr(tested.faults, fault, 0.0)
        await asyncio.sleep(5)
        assert await count(await tested.connect()) == (9 if executed else 10)

    simulated.run(test)


def test_a_replica_is_read_only_and_lacks_the_last_commits_until_it_is_promoted(simulated: SimUnderTest) -> None:
    async def test(tested: SimUnderTest) -> None:
        await tested.claim(NEW)
        tested.server.crash()
        tested.server.become_replica(behind=1)
        tested.server.start()
        found = await tested.find(NEW)
        assert NEW not in found and DATABASE in found
        assert await failure_of(tested.claim(NEW)) is Failure.READ_ONLY
        tested.server.become_primary()
        assert await failure_of(tested.claim(NEW)) is Failure.DUPLICATE

    simulated.run(test)


def test_what_the_server_has_begun_it_ends_when_its_client_dies(simulated: SimUnderTest) -> None:
    async def test(tested: SimUnderTest) -> None:
        holds, dies = await tested.connect(), await tested.connect()
        await holds.execute(TAKE, (-1, "apples"))
        waiting = asyncio.ensure_future(dies.execute(TAKE, (-1, "apples")))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await dies.close()
        await holds.commit()
        await asyncio.sleep(1)
        await tested.alone((TAKE, (-1, "apples")))  # its lock is free again
        assert await count(holds) == 8

    simulated.run(test)
