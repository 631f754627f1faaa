"""Old outcome rows are deleted, and never so that a check-back calls a committed transaction rolled back."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from gantrymq import Message
from gantrymq.errors import ConfigError, TransactionTooOld, Unreachable
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql import AsyncTransactions, Transactions
from gantrymq.sql.rows import transaction_id
from gantrymq.sql.rows.tables import CLEANED, Outcome
from gantrymq.sql.rules.claim import Failed, Query, claim
from gantrymq.sql.rules.runner import performed
from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase
from gantrymq.sql.transaction.local import Local, create_tables
from gantrymq.sql.transaction.settings import TransactionsConfig
from gantrymq.sql.upkeep import cleaning, open_halves
from gantrymq.sql.upkeep import hourly as upkeep
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place

DAY_MS = 86_400_000
COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
SEEDS = 12


@pytest.fixture
def local(database: Place) -> Iterator[Local]:
    engine = create_engine(database.url())
    asked = SqlAlchemyDatabase(engine)
    settings = TransactionsConfig(group="g", name_servers="127.0.0.1:1")
    create_tables(asked, settings)
    yield Local(asked, settings)
    engine.dispose()


def id_of(days_ago: float, number: int = 0) -> str:
    return transaction_id.make(SystemClock().wall_ms() - round(days_ago * DAY_MS), number)


def insert(place: Place, *ids: str, outcome: Outcome = Outcome.COMMITTED) -> None:
    for first in range(0, len(ids), 500):
        values = ", ".join(f"('{one}', {int(outcome)}, 'g')" for one in ids[first : first + 500])
        place.execute(f"INSERT INTO gantrymq_outcomes VALUES {values}")


def ids(place: Place) -> set[str]:
    return {row[0] for row in place.execute("SELECT id FROM gantrymq_outcomes WHERE id >= '0'")}


def clean(local: Local, days: float = 7.0, oldest_open: str | None = None) -> None:
    asking = cleaning.horizon_of(local.outcomes, SystemClock().wall_ms(), days * 86_400)
    horizon_ms = performed(asking, local.database.alone)
    assert horizon_ms is not None
    horizon = cleaning.horizon_id(horizon_ms, oldest_open)
    performed(cleaning.clean_outcomes(local.outcomes, horizon), local.database.alone)


def answer(local: Local, which: str) -> LocalTransactionState:
    """A whole check-back."""
    asking = claim(which, local.identity)
    try:
        query = next(asking)
        while True:
            query = asking.send(local.ask(query, which))
    except StopIteration as end:
        state: LocalTransactionState = end.value.state
        return state


def test_old_rows_go_in_batches_and_young_ones_and_the_two_that_are_none_stay(local: Local, database: Place) -> None:
    old = [id_of(8, number) for number in range(2_300)]
    young = [id_of(6, number) for number in range(3)]
    insert(database, *old, *young)
    clean(local)
    assert ids(database) == set(young)
    assert {row[0] for row in local.database.alone(local.outcomes.look())} == {"#database", CLEANED}
    clean(local)
    assert ids(database) == set(young)


def test_a_deleted_row_is_unknown_and_never_claimed(local: Local, database: Place) -> None:
    insert(database, gone := id_of(8))
    clean(local)
    assert answer(local, gone) is LocalTransactionState.UNKNOWN
    assert ids(database) == set()
    assert answer(local, id_of(6)) is ROLLBACK


def test_a_claim_that_looked_before_the_cleaning_decides_nothing_behind_it(local: Local, database: Place) -> None:
    """1. A check-back finds no row. 2. The transaction commits. 3. The cleaning deletes its row. 4. The check-back
    inserts its mark, which would say that the transaction is rolled back."""
    which = id_of(7.001)
    asking = claim(which, local.identity)
    found = local.ask(next(asking), which)
    query = asking.send(found)
    assert query is Query.CLAIM
    insert(database, which)
    clean(local)
    mark = local.ask(query, which)
    assert isinstance(mark, Failed)
    assert asking.send(mark) is Query.FIND
    with pytest.raises(StopIteration) as end:
        asking.send(local.ask(Query.FIND, which))
    assert end.value.value.state is LocalTransactionState.UNKNOWN
    assert ids(database) == set()


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_the_horizon_waits_for_a_claim_that_is_under_way(local: Local, database: Place) -> None:
    """A claim that waits for the local transaction holds the row #cleaned until it has ended."""
    which = id_of(7.001)
    holder = database.connect()
    holder.cursor().execute(f"INSERT INTO gantrymq_outcomes VALUES ('{which}', 1, 'g')")
    got: list[Any] = []
    claiming = threading.Thread(target=lambda: got.append(local.ask(Query.CLAIM, which)))
    claiming.start()
    database.await_lock()
    cleaner = threading.Thread(target=clean, args=(local,))
    cleaner.start()
    cleaner.join(0.2)
    assert cleaner.is_alive()
    holder.commit()
    claiming.join()
    cleaner.join()
    holder.close()
    (mark,) = got
    assert isinstance(mark, Failed), "the local transaction was faster"
    assert ids(database) == set(), "and its row was old"


def test_the_horizon_stays_below_an_open_half(local: Local, database: Place) -> None:
    kept, gone = id_of(10), id_of(11)
    insert(database, kept, gone, id_of(9))
    clean(local, oldest_open=kept)
    assert gone not in ids(database) and kept in ids(database) and len(ids(database)) == 2


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("days", [-30, 30])
def test_a_clock_that_is_wrong_deletes_nothing_that_is_young(
    local: Local, database: Place, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock that is behind counts: that of the database, or that of the process."""
    insert(database, young := id_of(6), id_of(40))
    wrong = SystemClock().wall_ms() + days * DAY_MS
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: wrong)
    clean(local)
    assert ids(database) == {young}


def test_a_horizon_never_moves_back(local: Local, database: Place) -> None:
    insert(database, gone := id_of(8))
    clean(local)
    clean(local, days=30)
    assert answer(local, gone) is LocalTransactionState.UNKNOWN


def test_one_process_an_hour_cleans_without_a_lock(local: Local) -> None:
    def due() -> bool:
        asking = cleaning.horizon_of(local.outcomes, SystemClock().wall_ms(), 7 * 86_400, upkeep.EVERY_S)
        return performed(asking, local.database.alone) is not None

    assert due()
    clean(local)
    assert not due()
    clean(local, days=7 + 2 / 24)  # another one, with other settings
    assert not due()


@pytest.mark.parametrize("older_than", [0, 3_600, 2 * 86_400 - 1, True, None, "week", float("nan"), float("inf")])
def test_rows_that_may_be_needed_cannot_be_cleaned(older_than: Any) -> None:
    with pytest.raises(ConfigError, match="rows are kept for 172800 seconds or more"):
        cleaning.check_age(older_than)
    if older_than is not None:
        with pytest.raises(ConfigError, match="rows are kept for"):
            TransactionsConfig(group="g", name_servers="x", keep_rows=older_than)


def test_long_transactions_need_rows_that_are_kept_longer() -> None:
    with pytest.raises(ConfigError, match="691200 seconds or more"):
        TransactionsConfig(group="g", name_servers="x", longest_transaction=7 * 86_400)


def test_a_local_transaction_that_is_older_than_its_mark_may_be_cannot_commit(
    sqlite: Place, gantry: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_engine(sqlite.url())
    transactions = Transactions("g", engine, name_servers=gantry.name_servers)
    transactions.create_table()
    with pytest.raises(TransactionTooOld, match="longer than a day"), transactions.begin() as tx:
        tx.send(Message("T", "x"))
        later = SystemClock.monotonic() + 86_401
        monkeypatch.setattr(SystemClock, "monotonic", staticmethod(lambda: later))
    assert gantry.messages("T") == [] and gantry.open_transactions() == []
    transactions.close()
    engine.dispose()


# Safety, by chance.

Move = Callable[[], object]


class RandomLife:
    """Transactions that commit or not, check-backs and cleanings, each in its steps; a test says in which order.

    Time is moved by making ids that are almost too old, and by cleaning at one horizon after the other.
    """

    def __init__(self, local: Local, place: Place, chance: random.Random) -> None:
        self.local = local
        self.place = place
        self.chance = chance
        self.now_ms = SystemClock().wall_ms() - 7 * DAY_MS
        """Where the horizon is."""
        self.committed: set[str] = set()
        self.answers: dict[str, set[LocalTransactionState]] = {}
        self.actors: list[Iterator[None]] = []

    def transaction(self, which: str) -> Iterator[None]:
        yield
        if which < transaction_id.first_of(self.now_ms):
            return  # the third rule: it is too old
        try:
            self.local.database.alone([self.local.outcomes.insert(which)])
        except Exception:
            return  # claimed
        self.committed.add(which)
        yield

    def check_back(self, which: str) -> Iterator[None]:
        asking = claim(which, self.local.identity)
        query = next(asking)
        while True:
            yield
            found = self.local.ask(query, which)
            yield
            try:
                query = asking.send(found)
            except StopIteration as end:
                self.answers.setdefault(which, set()).add(end.value.state)
                return

    def cleaner(self) -> Iterator[None]:
        self.now_ms += self.chance.randrange(3)
        horizon = transaction_id.first_of(self.now_ms)
        asking = cleaning.clean_outcomes(self.local.outcomes, horizon)
        statements = next(asking)
        while True:
            yield
            try:
                rows = self.local.database.alone(statements)
            except Exception as error:
                step: Callable[[], Any] = lambda error=error: asking.throw(error)  # noqa: E731
            else:
                step = lambda rows=rows: asking.send(rows)  # noqa: E731
            try:
                statements = step()
            except StopIteration:
                return

    def play(self) -> None:
        for number in range(6):
            which = transaction_id.make(self.now_ms + self.chance.randrange(4), number)
            self.actors += [self.transaction(which)] if self.chance.random() < 0.8 else []
            self.actors += [self.check_back(which) for _ in range(self.chance.randrange(1, 3))]
        self.actors += [self.cleaner() for _ in range(3)]
        while self.actors:
            actor = self.chance.choice(self.actors)
            if next(actor, self) is self:
                self.actors.remove(actor)

    def check(self) -> None:
        for which, states in self.answers.items():
            if which in self.committed:
                assert ROLLBACK not in states, f"{which} is committed"
            else:
                assert COMMIT not in states, f"{which} did not commit"


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_no_order_of_commits_claims_and_cleanings_calls_a_committed_transaction_rolled_back(
    local: Local, database: Place
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    seen: set[LocalTransactionState] = set()
    for life in (RandomLife(local, database, random.Random(seed + number)) for number in range(SEEDS)):
        life.play()
        life.check()
        seen |= set().union(*life.answers.values())
        database.execute("DELETE FROM gantrymq_outcomes WHERE id >= '0'")
        database.execute(f"UPDATE gantrymq_outcomes SET note = '' WHERE id = '{CLEANED}'")
    assert seen == set(LocalTransactionState), f"seed {seed}: it has tested something"


# In the background, and with brokers.


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_brokers_are_asked_for_open_halves(sqlite: Place, gantry: LocalCluster, kind: str) -> None:
    """An open half message of another group in the same database keeps its row, and one of another database does
    not."""
    engine = create_engine(sqlite.url())
    transactions = Transactions("g", engine, name_servers=gantry.name_servers)
    transactions.create_table()
    transactions.start()
    identity = transactions._started()[0].identity
    kept, gone = id_of(10), id_of(11)
    insert(sqlite, kept, gone)
    with gantry.door("another group") as door:
        for which, where in ((kept, identity), (id_of(20), "another database")):
            message = Message("T", "x")
            message.properties["GANTRY_LOCAL_TRANSACTION"] = f"{which} {where}"
            door.send_half(message)
        if kind == "threads":
            transactions.clean()
        else:

            async def clean_on_loop() -> None:
                other = create_async_engine(sqlite.async_url)
                async with AsyncTransactions("g", other, name_servers=gantry.name_servers) as started:
                    await started.clean()
                await other.dispose()

            asyncio.run(clean_on_loop())
        assert ids(sqlite) == {kept}
    transactions.close()
    engine.dispose()


def test_brokers_that_cannot_be_asked_do_not_stop_the_cleaning(caplog: pytest.LogCaptureFixture) -> None:
    found = asyncio.run(open_halves.oldest_open("127.0.0.1:1", {"call_timeout_ms": 300}, "here"))
    assert found is None
    assert "without asking brokers for open half messages" in caplog.text


def test_cleaning_happens_by_itself(sqlite: Place, gantry: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "FIRST_WITHIN_S", 0.001)
    engine = create_engine(sqlite.url())
    first = Transactions("g", engine, name_servers=gantry.name_servers, keep_rows=None)
    first.create_table()
    insert(sqlite, id_of(8))
    with first:
        assert first._upkeep is None
    with Transactions("g", engine, name_servers=gantry.name_servers):
        while ids(sqlite):
            pass
    assert not [thread for thread in threading.enumerate() if thread.name == "gantrymq-clean"]

    async def test() -> None:
        insert(sqlite, id_of(8))
        sqlite.execute(f"UPDATE gantrymq_outcomes SET note = '' WHERE id = '{CLEANED}'")
        other = create_async_engine(sqlite.async_url)
        async with AsyncTransactions("g", other, name_servers=gantry.name_servers):
            while ids(sqlite):
                await asyncio.sleep(0)
        await other.dispose()

    asyncio.run(test())
    engine.dispose()


def test_a_failure_in_the_background_is_logged_and_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "FIRST_WITHIN_S", 0.001)
    monkeypatch.setattr(upkeep, "EVERY_S", 0.001)
    tries = itertools.count()
    enough = threading.Event()

    def fails() -> None:
        if next(tries) >= 2:
            enough.set()
        raise Unreachable("127.0.0.1:1", "gone")

    running = upkeep.Upkeep(fails)
    assert enough.wait(30)
    running.stop()
    assert "old rows could not be deleted; it is tried again in an hour: Unreachable" in caplog.text


def test_the_clock_of_each_database_is_read(local: Local) -> None:
    now_ms = SystemClock().wall_ms()
    for own_ms in (now_ms + DAY_MS, now_ms - DAY_MS):
        found = performed(cleaning.now_of(local.outcomes.dialect.kind, own_ms), local.database.alone)
        assert abs(found - min(now_ms, own_ms)) < 60_000
