"""The inbox: whatever comes twice, its effect in the database is there once."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from gantrymq import Message
from gantrymq.client.results import ConsumeStatus, ReconsumeLater
from gantrymq.errors import Closed, ConfigError
from gantrymq.message.message import MessageView
from gantrymq.sql import AsyncInbox, AsyncTransactions, Inbox, Transactions
from gantrymq.sql.inbox.effect import AlreadyConsumed
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place
from tests.sql.message_views import view

FORMS = ["engine", "sessionmaker", "connect", "transactions", "transactions on connections"]
STRICT = {"postgresql": "SERIALIZABLE", "mariadb": "SERIALIZABLE", "sqlite": "SERIALIZABLE"}
SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


@pytest.fixture
def engine(database: Place) -> Iterator[Engine]:
    made = create_engine(database.url())
    yield made
    made.dispose()


@pytest.fixture
def place(database: Place) -> Place:
    """A database with a table of effects."""
    database.execute("CREATE TABLE effects (name VARCHAR(100))")
    return database


def effects(place: Place) -> list[str]:
    return sorted(row[0] for row in place.execute("SELECT name FROM effects"))


def rows(place: Place) -> int:
    return int(place.execute("SELECT COUNT(*) FROM gantrymq_inbox")[0][0])


@pytest.fixture
def inbox(place: Place, engine: Engine) -> Inbox:
    made = Inbox("shipping", engine)
    made.create_table()
    return made


def effect(tx: Any, name: str) -> None:
    """Note that this effect has happened, by whatever ``tx`` has."""
    statement = f"INSERT INTO effects VALUES ('{name}')"
    tx.execute(text(statement) if hasattr(type(tx._local), "session") else statement)


def put(message: MessageView, tx: Any) -> None:
    effect(tx, message.body.decode())


@pytest.mark.parametrize("form", FORMS)
def test_an_effect_happens_once_with_each_way_in(form: str, place: Place, engine: Engine, gantry: LocalCluster) -> None:
    given: Any = {
        "engine": lambda: engine,
        "sessionmaker": lambda: sessionmaker(engine),
        "connect": lambda: place.connect,
        "transactions": lambda: Transactions("g", engine, name_servers=gantry.name_servers),
        "transactions on connections": lambda: Transactions("g", place.connect, name_servers=gantry.name_servers),
    }[form]()
    inbox = Inbox("shipping", given)
    if form.startswith("transactions"):
        given.create_table()
    inbox.create_table()
    message = view()
    for expected in (False, True):
        with inbox.once(message) as tx:
            assert tx.duplicate is expected
            put(message, tx)
            assert not expected, "a block of a duplicate ends with the first use of tx"
    assert effects(place) == [message.message_id]
    listener = inbox.once(put)
    other = view()
    assert [listener([other, message]), listener([other])] == [SUCCESS, SUCCESS]
    assert effects(place) == sorted([message.message_id, other.message_id])
    if form.startswith("transactions"):
        given.close()


@pytest.mark.parametrize("form", ["engine", "sessionmaker", "connect", "transactions", "transactions on connections"])
@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
def test_an_effect_happens_once_on_an_event_loop(form: str, place: Place, gantry: LocalCluster) -> None:
    if place.kind == "sqlite" and "connect" in form:
        pytest.skip("asynchronous connections are supported for psycopg only")

    async def test() -> None:
        engine = create_async_engine(place.async_url)
        given: Any = {"engine": lambda: engine, "sessionmaker": lambda: async_sessionmaker(engine)}.get(form)
        if form.endswith(("connect", "connections")):
            import psycopg

            async def connect() -> Any:
                return await psycopg.AsyncConnection.connect(place.dsn)

            given = lambda: connect  # noqa: E731
        if form.startswith("transactions"):
            base = given() if given else engine
            started = AsyncTransactions("g", base, name_servers=gantry.name_servers)
            await started.create_table()
            given = lambda: started  # noqa: E731
        inbox = Inbox("shipping", given())
        assert isinstance(inbox, AsyncInbox)
        await inbox.create_table()

        async def put_async(message: MessageView, tx: Any) -> None:
            statement = f"INSERT INTO effects VALUES ('{message.body.decode()}')"
            await tx.execute(text(statement) if hasattr(type(tx._local), "session") else statement)

        message, other = view(), view()
        for expected in (False, True):
            async with inbox.once(message) as tx:
                assert tx.duplicate is expected
                await put_async(message, tx)
        listener: Any = inbox.once(put_async)
        assert [await listener([other, message]), await listener([other])] == [SUCCESS, SUCCESS]

        @inbox.once(whole_batch=True)
        async def all_of_them(messages: list[MessageView], tx: Any) -> Any:
            for one in messages:
                await put_async(one, tx)
            return None

        last = view()
        assert await all_of_them([message, last, other]) == SUCCESS
        assert effects(place) == sorted([message.message_id, other.message_id, last.message_id])
        await inbox.clean()
        if form.startswith("transactions"):
            await given().close()
        await engine.dispose()

    asyncio.run(test())


@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
def test_an_error_or_a_cancellation_rolls_back_on_an_event_loop(place: Place) -> None:
    async def test() -> None:
        engine = create_async_engine(place.async_url)
        inbox = AsyncInbox("shipping", engine)
        await inbox.create_table()
        message, entered = view(), asyncio.Event()

        async def consume(wait: float) -> bool:
            async with inbox.once(message) as tx:
                await tx.execute(text("INSERT INTO effects VALUES ('x')"))
                entered.set()
                await asyncio.sleep(wait)
                if not wait:
                    raise ZeroDivisionError
            return False

        with pytest.raises(ZeroDivisionError):
            await consume(0)
        task = asyncio.create_task(consume(3_600))
        await entered.wait()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        async with inbox.once(message) as tx:
            assert not tx.duplicate
        assert effects(place) == []
        await engine.dispose()

    asyncio.run(test())


def test_an_error_rolls_back_and_the_message_may_come_again(inbox: Inbox, place: Place) -> None:
    tries: list[str] = []

    @inbox.once
    def ship(message: MessageView, tx: Any) -> None:
        put(message, tx)
        tries.append(message.message_id)
        if len(tries) == 1:
            raise RuntimeError("no room")

    message = view()
    with pytest.raises(RuntimeError):
        ship([message])
    assert (effects(place), rows(place)) == ([], 0)
    assert ship([message]) == ship([message]) == SUCCESS
    assert effects(place) == [message.message_id] and len(tries) == 2


@pytest.mark.parametrize("answer", [LATER, ReconsumeLater(delay_level=3), ReconsumeLater(suspend_ms=50), "nonsense"])
def test_a_listener_that_wants_the_message_again_leaves_no_effect(inbox: Inbox, place: Place, answer: Any) -> None:
    answers = [answer, None]

    @inbox.once
    def ship(message: MessageView, tx: Any) -> Any:
        put(message, tx)
        return answers.pop(0)

    message = view()
    again = ship([message])
    assert again == (answer if isinstance(answer, ReconsumeLater) else ReconsumeLater())
    assert effects(place) == []
    assert ship([message]) == SUCCESS
    assert effects(place) == [message.message_id]


def test_a_batch_ends_with_its_first_failure_and_skips_what_is_done_when_it_comes_again(
    inbox: Inbox, place: Place
) -> None:
    called: list[str] = []

    @inbox.once
    def ship(message: MessageView, tx: Any) -> Any:
        called.append(message.message_id)
        put(message, tx)
        return LATER if called == ["a", "b"] else None

    batch = [view(name) for name in "abc"]
    assert ship(batch) == ReconsumeLater()
    assert effects(place) == ["a"], "c waits for b, which may be before it"
    assert ship(batch) == SUCCESS
    assert (effects(place), called) == (["a", "b", "c"], ["a", "b", "b", "c"])


def test_a_whole_batch_is_one_transaction(inbox: Inbox, place: Place) -> None:
    got: list[list[str]] = []
    answers: list[Any] = [LATER, None, None]

    @inbox.once(whole_batch=True)
    def ship(messages: list[MessageView], tx: Any) -> Any:
        got.append([message.message_id for message in messages])
        for message in messages:
            put(message, tx)
        return answers.pop(0)

    a, b, c = (view(name) for name in "abc")
    assert ship([b, a]) == ReconsumeLater()
    assert (effects(place), rows(place)) == ([], 0)
    assert ship([b, a]) == SUCCESS
    assert ship([a, c, view("c"), b]) == SUCCESS
    assert ship([a, b, c]) == SUCCESS and ship([]) == SUCCESS
    assert got == [["b", "a"], ["b", "a"], ["c"]], "in the order of the batch; each once; not at all without a new one"
    assert effects(place) == ["a", "b", "c"]


@pytest.mark.parametrize("first_commits", [True, False])
def test_of_two_consumers_at_once_the_second_one_waits(place: Place, engine: Engine, first_commits: bool) -> None:
    inbox = Inbox("shipping", engine)
    inbox.create_table()
    message = view()
    has_row, go_on = threading.Event(), threading.Event()

    def first() -> None:
        with inbox.once(message) as tx:
            has_row.set()
            go_on.wait(30)
            if not first_commits:
                raise RuntimeError("the first one fails")
            effect(tx, "first")

    def second() -> bool:
        has_row.wait(30)
        with inbox.once(message) as tx:
            effect(tx, "second")
        return tx.duplicate

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(first), pool.submit(second)
        has_row.wait(30)
        place.await_lock()
        assert not other.done()
        go_on.set()
        assert (one.exception() is None) is first_commits
        assert other.result() is first_commits
    assert effects(place) == ["first" if first_commits else "second"]


@pytest.mark.parametrize("strict", [False, True])
def test_random_deliveries_to_several_consumers(place: Place, strict: bool) -> None:
    """Each message comes several times, to several threads at once, which fail now and then."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    options: dict[str, Any] = {"isolation_level": STRICT[place.kind]} if strict else {}
    engine = create_engine(place.url(), pool_size=6, **options)
    inbox = Inbox("shipping", engine)
    inbox.create_table()
    place.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY, taken INTEGER)", "INSERT INTO stock VALUES (1, 0)")
    names = [f"m{number:02}" for number in range(12)]
    deliveries = [names[:] for _ in range(4)]
    failing = {(worker, name) for worker in range(3) for name in names if chance.random() < 0.2}

    @inbox.once
    def ship(message: MessageView, tx: Any) -> None:
        tx.execute(text("UPDATE stock SET taken = taken + 1 WHERE id = 1"))
        put(message, tx)
        worker = int(threading.current_thread().name[-1])
        if (worker, message.message_id) in failing:
            raise RuntimeError("a failure by chance")

    def consume(worker: int) -> None:
        threading.current_thread().name = f"worker {worker}"
        left = deliveries[worker]
        while left:  # what fails comes again later
            name = left.pop(0)
            try:
                ship([view(name)])
            except RuntimeError:
                failing.discard((worker, name))
                left.append(name)
            except Exception:  # the database: a deadlock, a lock timeout
                left.append(name)

    for order in deliveries:
        chance.shuffle(order)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(consume, range(4)))
    engine.dispose()
    assert effects(place) == names, f"seed {seed}"
    assert place.execute("SELECT taken FROM stock") == [(len(names),)], f"seed {seed}"


@pytest.mark.parametrize("how", ["commit", "rollback"])
def test_a_block_that_ends_its_transaction_itself_is_told(inbox: Inbox, place: Place, how: str) -> None:
    """After a rollback the row would be missing, and the effect could happen again."""
    message = view()
    with pytest.raises(ConfigError, match=r"commit\(\) or rollback\(\)"), inbox.once(message) as tx:
        effect(tx, "before")
        getattr(tx.session, how)()
        effect(tx, "behind")
    assert effects(place) == (["before"] if how == "commit" else [])
    with inbox.once(message) as tx:
        assert tx.duplicate is (how == "commit")


def test_a_savepoint_of_the_block_is_its_own(inbox: Inbox, place: Place) -> None:
    with inbox.once(view()) as tx:
        effect(tx, "kept")
        with pytest.raises(ZeroDivisionError), tx.session.begin_nested():
            effect(tx, "dropped")
            1 / 0  # noqa: B018
    assert (effects(place), rows(place)) == (["kept"], 1)


def test_the_block_of_a_duplicate(inbox: Inbox, place: Place) -> None:
    message, seen = view(), []
    with inbox.once(message) as tx:
        effect(tx, "one")
    with inbox.once(message) as tx:
        seen.append("before tx")
        try:
            effect(tx, "two")
        except Exception:
            seen.append("caught")
        seen.append("behind tx")
    assert (seen, effects(place)) == (["before tx"], ["one"])
    with pytest.raises(ValueError), inbox.once(message):
        raise ValueError("of the block itself")
    with pytest.raises(AlreadyConsumed):
        tx.session  # noqa: B018


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_duplicate_ends_its_own_block_and_no_other(inbox: Inbox) -> None:
    message, ended = view(), []
    with inbox.once(message):
        pass
    with inbox.once(view()):
        with inbox.once(message) as inner:
            inner.session  # noqa: B018
            pytest.fail("not reached")
        ended.append("inner")
    with inbox.once(message) as outer:
        with inbox.once(view()):
            outer.send(Message("T", "x"))
        pytest.fail("not reached")
    assert ended == ["inner"]


def test_a_task_group_in_the_block_of_a_duplicate_ends_it_quietly(sqlite: Place) -> None:
    async def test() -> None:
        engine = create_async_engine(sqlite.async_url)
        inbox = AsyncInbox("shipping", engine)
        await inbox.create_table()
        message = view()
        async with inbox.once(message):
            pass
        async with inbox.once(message) as tx, asyncio.TaskGroup() as group:

            async def use() -> None:
                tx.session  # noqa: B018

            group.create_task(use())
            group.create_task(use())
        await engine.dispose()

    asyncio.run(test())


def test_wrong_use_is_told(inbox: Inbox, engine: Engine, database: Place) -> None:
    with pytest.raises(ConfigError, match="Inbox takes a Transactions object, an Engine"):
        Inbox("g", 5)
    with pytest.raises(ConfigError, match="use Inbox"):
        AsyncInbox("g", engine)
    with pytest.raises(ConfigError, match="key must be a function"):
        Inbox("g", engine, key="id")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="kept for 172800 seconds or more"):
        Inbox("g", engine, keep_rows=60)
    with pytest.raises(ConfigError, match="no `async def`"):

        @inbox.once
        async def ship(message: MessageView, tx: Any) -> None:
            """Needs an AsyncEngine."""

    with pytest.raises(ConfigError, match="once takes a message"):
        inbox.once([view()])  # type: ignore[call-overload]
    tx = inbox.once(view())
    with pytest.raises(Closed, match=r"with inbox\.once"):
        tx.session  # noqa: B018
    with tx, pytest.raises(ConfigError, match="used already"):
        tx.__enter__()
    with inbox.once(view()) as tx, pytest.raises(ConfigError, match=r"no connection; use tx\.session"):
        tx.connection  # noqa: B018
    with Inbox("g", database.connect).once(view()) as tx:
        with pytest.raises(ConfigError, match=r"no session; use tx\.connection"):
            tx.session  # noqa: B018
        with pytest.raises(ConfigError, match="give it a Transactions object"):
            tx.send(Message("T", "x"))


def test_without_its_table_an_inbox_says_what_to_do(engine: Engine, database: Place) -> None:
    for given in (engine, database.connect):
        unusable = pytest.raises(ConfigError, match=r"no table gantrymq_inbox: call inbox.create_table\(\)")
        with unusable, Inbox("g", given).once(view()):
            pytest.fail("not reached")


def test_groups_have_rows_of_their_own(inbox: Inbox, engine: Engine) -> None:
    message = view()
    for group in ("shipping", "billing"):
        with Inbox(group, engine).once(message) as tx:
            assert not tx.duplicate


# Which messages are the same.


@pytest.mark.parametrize("key", ["", None, 5, b"bytes"])
def test_a_key_that_is_none_is_told(inbox: Inbox, engine: Engine, key: Any) -> None:
    with pytest.raises(ConfigError, match="must be a text that is not empty"):
        Inbox("shipping", engine, key=lambda _: key).once(view())


def test_a_business_key(inbox: Inbox, place: Place, engine: Engine) -> None:
    by_order = Inbox("shipping", engine, key=lambda message: f"order {message.keys[0]}")
    listener = by_order.once(put)
    assert listener([view("one", KEYS="7"), view("other", KEYS="7 8"), view("third", KEYS="9")]) == SUCCESS
    assert effects(place) == ["one", "third"]


# Cleaning.


def test_old_rows_are_deleted_in_batches_and_young_ones_stay(inbox: Inbox, place: Place) -> None:
    with inbox.once(view("young")):
        pass
    columns = "consumer_group, message_id, consumed_at"
    for first in range(0, 2_500, 500):
        values = ", ".join(f"('shipping', 'old {number}', {number})" for number in range(first, first + 500))
        place.execute(f"INSERT INTO gantrymq_inbox ({columns}) VALUES {values}")
    inbox.clean()
    assert place.execute("SELECT message_id FROM gantrymq_inbox") == [("orders young",)]
    with pytest.raises(ConfigError, match="kept for"):
        inbox.clean(older_than=3_600)


def test_a_clock_that_is_ahead_deletes_nothing_that_is_young(
    inbox: Inbox, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.kind == "sqlite":
        pytest.skip("its clock is that of the process")
    with inbox.once(view()):
        pass
    from gantrymq.runtime.clock import SystemClock

    later = SystemClock().wall_ms() + 30 * 86_400_000
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: later)
    inbox.clean()
    assert rows(place) == 1


# With a broker.


@pytest.mark.gantry(virtual_time=True)
@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_consume_then_database_then_produce(place: Place, engine: Engine, gantry: LocalCluster, orderly: bool) -> None:
    """A chain: each order is shipped once and announced once, though the listener fails and messages come again."""
    from gantrymq import PushConsumer
    from gantrymq.message.heartbeat import ConsumeFromWhere

    transactions = Transactions("shipping-service", engine, name_servers=gantry.name_servers)
    transactions.create_table()
    inbox = Inbox("shipping", transactions)
    tries: list[str] = []

    @inbox.once
    def ship(message: MessageView, tx: Any) -> Any:
        name = message.body.decode()
        tries.append(name)
        effect(tx, name)
        tx.send(Message("shipped", f"shipped {name}"))
        if tries.count(name) == 1 and name in ("1", "3"):
            if name == "1":
                raise RuntimeError("fails once")
            return ReconsumeLater(suspend_ms=10)
        return None

    gantry.create_topic("orders", queues=1)
    gantry.create_topic("shipped")
    for name in "0123":
        gantry.send(Message("orders", name))
    options: dict[str, Any] = {"orderly": True} if orderly else {}
    consumer = PushConsumer(
        "shipping", name_servers=gantry.name_servers, listener=ship, from_where=ConsumeFromWhere.FIRST_OFFSET, **options
    ).subscribe("orders")
    consumer.start()
    gantry.advance(60)
    consumer.close()
    again = PushConsumer("shipping", name_servers=gantry.name_servers, listener=ship, **options).subscribe("orders")
    again.start()
    for message in gantry.messages("orders"):  # all of them come again, as after a reset
        assert ship([message]) == SUCCESS
    again.close()
    transactions.close()
    assert effects(place) == ["0", "1", "2", "3"]
    assert sorted(message.body.decode() for message in gantry.messages("shipped")) == [f"shipped {n}" for n in "0123"]
    assert gantry.open_transactions() == []
    assert sorted(tries) == ["0", "1", "1", "2", "3", "3"]
    if orderly:
        assert tries == ["0", "1", "1", "2", "3", "3"]
