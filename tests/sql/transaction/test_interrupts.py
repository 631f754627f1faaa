"""Ctrl-C and cancellations, at every step of the protocol: nothing hangs, rows and messages agree.

``enlistment`` says why: what an interrupt leaves is ended by the end of its session, or by the garbage collector.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
from collections.abc import Coroutine, Generator, Iterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from gantrymq import Message
from gantrymq.sql import AsyncTransactions, Transactions
from gantrymq.sql.sqlalchemy import last_statement
from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase
from gantrymq.sql.transaction.waiters import ThreadWaiter
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place
from tests.sql.traps import engine_of

BROKER = pytest.mark.gantry(broker={"transactionTimeOut": 1000, "transactionCheckInterval": 1000})
TWO = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
MOST = 400
"""More steps than any of these transactions has."""


class Interrupter:
    """Raises KeyboardInterrupt before or behind the call with a number, of those that it watches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._left: int | None = None
        self.behind = False
        self.where = ""

    def watch(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def watched(*arguments: Any, **options: Any) -> Any:
            if not self.behind:
                self._step(name)
            result = original(*arguments, **options)
            if self.behind:
                self._step(name)
            return result

        self._monkeypatch.setattr(owner, name, watched)

    def arm(self, number: int, behind: bool) -> None:
        self._left, self.behind, self.where = number, behind, ""

    def disarm(self) -> bool:
        """Whether it has interrupted something."""
        interrupted, self._left = self._left == 0, None
        return interrupted

    def _step(self, name: str) -> None:
        if self._left:
            self._left -= 1
            if not self._left:
                self.where = name
                raise KeyboardInterrupt


def rows(place: Place) -> list[int]:
    return [row[0] for row in place.execute("SELECT id FROM orders ORDER BY id")]


def announced(gantry: LocalCluster) -> list[int]:
    return sorted(int(message.body) for message in gantry.messages("orders"))


def disagreeing(place: Place, gantry: LocalCluster, steps: dict[int, str]) -> list[str]:
    """The steps whose rows and messages are not the same. The orders of step 7 have the numbers 70 and 71."""
    paid, told = rows(place), announced(gantry)
    return [
        f"step {step}, {where}: rows {mine}, messages {theirs}"
        for step, where in steps.items()
        for mine in [[order for order in paid if order // 10 == step]]
        for theirs in [[order for order in told if order // 10 == step]]
        if mine != theirs
    ]


@pytest.fixture(scope="module", autouse=True)
def collections_are_short() -> None:
    """Each step collects garbage, and need not look again at what all tests before these have made: a tenth of a
    second each time in a process that has run many."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def place(database: Place, gantry: LocalCluster) -> Iterator[Place]:
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    gantry.create_topic("orders")
    yield database


@pytest.mark.slow
@BROKER
@TWO
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("commits", [True, False])
def test_ctrl_c_at_every_step(
    place: Place, gantry: LocalCluster, monkeypatch: pytest.MonkeyPatch, behind: bool, commits: bool
) -> None:
    engine = engine_of(place, "WAL" if place.kind == "sqlite" else "READ COMMITTED")
    transactions = Transactions("service", engine, name_servers=gantry.name_servers, longest_transaction=1)
    transactions.create_table()
    transactions.start()
    interrupter = Interrupter(monkeypatch)
    for owner, names in {
        ThreadWaiter: ("begin", "post"),
        Connection: ("exec_driver_sql",),
        last_statement: ("execute",),
        SqlAlchemyDatabase: ("alone",),
        engine.dialect: ("do_commit", "do_rollback"),
    }.items():
        for name in names:
            interrupter.watch(owner, name)

    def work(number: int) -> None:
        with transactions.begin() as tx:
            for order in (number, number + 1):
                tx.session.execute(text(f"INSERT INTO orders VALUES ({order})"))
                tx.send(Message("orders", str(order)))
            if not commits:
                raise ZeroDivisionError

    steps: dict[int, str] = {}
    for step in range(1, MOST):
        interrupter.arm(step, behind)
        with contextlib.suppress(KeyboardInterrupt, ZeroDivisionError):
            work(step * 10)
        interrupted = interrupter.disarm()
        gc.collect()
        steps[step] = interrupter.where
        if not interrupted:
            break
    assert 4 < step < MOST
    gantry.wait_until(lambda: not gantry.open_transactions(), 60)
    assert not disagreeing(place, gantry, steps)
    assert (len(rows(place)) > 0) is commits
    transactions.close()
    engine.dispose()


class CancelAt:
    """Awaits a coroutine and cancels its task when it waits for the n-th time."""

    def __init__(self, work: Coroutine[Any, Any, None], number: int) -> None:
        self._work = work
        self._number = number
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, None]:
        running = self._work.__await__()
        to_send: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = running.send(to_send) if error is None else running.throw(error)
            except StopIteration:
                return
            self.waits += 1
            if self.waits == self._number:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                to_send, error = (yield waits_for), None
            except BaseException as thrown:
                to_send, error = None, thrown


@pytest.mark.slow
@BROKER
@TWO
@pytest.mark.parametrize("commits", [True, False])
def test_a_cancellation_at_every_await(place: Place, gantry: LocalCluster, commits: bool) -> None:
    async def test() -> None:
        engine = create_async_engine(place.async_url)
        transactions = AsyncTransactions("service", engine, name_servers=gantry.name_servers, longest_transaction=1)
        await transactions.create_table()
        await transactions.start()

        async def work(number: int) -> None:
            async with transactions.begin() as tx:
                for order in (number, number + 1):
                    await tx.session.execute(text(f"INSERT INTO orders VALUES ({order})"))
                    tx.send(Message("orders", str(order)))
                if not commits:
                    raise ZeroDivisionError

        steps: dict[int, str] = {}
        for step in range(1, MOST):
            cancelling = CancelAt(work(step * 10), step)

            async def run(waits: CancelAt = cancelling) -> None:
                await waits

            task = asyncio.create_task(run())
            await asyncio.wait([task], timeout=60)
            assert task.done(), f"it hangs behind a cancellation at its await {step}"
            if not task.cancelled() and task.exception() is not None:
                assert isinstance(task.exception(), ZeroDivisionError), task.exception()
            del task
            gc.collect()
            steps[step] = "an await"
            if cancelling.waits < step:
                break
        assert 4 < step < MOST
        await gantry.wait_until_async(lambda: not gantry.open_transactions(), 60)
        assert not await asyncio.to_thread(disagreeing, place, gantry, steps)
        await transactions.close()
        await engine.dispose()

    asyncio.run(test())
    assert (len(rows(place)) > 0) is commits


@pytest.mark.parametrize("when", ["before", "behind"])
def test_halves_are_ended_though_the_caller_never_waited(
    sqlite: Place, gantry: LocalCluster, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Behind the commit, Ctrl-C came before the wait for the ends began: the halves stayed open in the memory of the
    process, and check-backs were told that the local transaction is still running."""
    gantry.create_topic("orders")
    engine = engine_of(sqlite, "WAL")
    begin = ThreadWaiter.begin

    def interrupted(self: Any, function: Any, *arguments: Any) -> Any:
        if function.__name__ != "end_then":  # it may be compiled, and then has no __func__
            return begin(self, function, *arguments)
        monkeypatch.undo()
        if when == "behind":
            begin(self, function, *arguments)
        raise KeyboardInterrupt

    transactions = Transactions("service", engine, name_servers=gantry.name_servers)
    transactions.create_table()
    transactions.start()
    monkeypatch.setattr(ThreadWaiter, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt), transactions.begin() as tx:
        tx.send(Message("orders", "1"))
    gantry.wait_until(lambda: len(gantry.messages("orders")) == 1)
    assert gantry.open_transactions() == []
    transactions.close()
    engine.dispose()
