"""The traps of databases that others fell into, and those that we could think of. Each is a test by its name."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from gantrymq import Message
from gantrymq.errors import (
    Closed,
    ConfigError,
    HalfNotStored,
    MessageIllegal,
    OutcomeUnknown,
    RouteNotFound,
    TimedOut,
    TransactionClaimed,
    Unreachable,
)
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql import Transactions, send
from gantrymq.sql.rules.claim import Failed, Query
from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase
from gantrymq.sql.transaction.database import BlockingDatabase
from gantrymq.sql.transaction.local import Local
from gantrymq.testing import LocalCluster
from tests.sql.cutting_proxy import CuttingProxy, Moment
from tests.sql.databases import Place
from tests.sql.traps import COMMIT, ROLLBACK, UNKNOWN, Shop, engine_of, level, only, shop

__all__ = ["level", "shop"]
CLAIMERS = 4


class Base(DeclarativeBase):
    """The tables of these tests."""


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


# Claims and commits at once.


@pytest.mark.parametrize("commits", [True, False])
def test_several_claims_and_the_commit_at_once_do_not_deadlock(shop: Shop, commits: bool) -> None:
    """dtm, issue 318: a check inserts while the local transaction does, and the database chooses one of them to die.
    Whoever that is, nobody gets a wrong answer, and the local transaction is not the one that fails."""
    answers: list[Any] = []
    with shop.sibling() as sibling, ThreadPoolExecutor(CLAIMERS) as pool:
        local = sibling._started()[0]

        def claim_all() -> None:
            which = shop.transactions_id
            answers.extend(pool.submit(shop.asked, local, which) for _ in range(CLAIMERS))
            shop.place.await_lock(lambda: all(answer.done() for answer in answers))
            if not commits:
                raise RuntimeError("the local transaction fails at the last moment")

        shop.before_the_commit(claim_all)
        try:
            with shop.transactions.begin() as tx:
                shop.pay(tx, 1)
                shop.transactions_id = tx.transaction_id or ""
        except RuntimeError:
            pass
        states = {answer.result().state for answer in answers}
        assert states <= {COMMIT if commits else ROLLBACK, UNKNOWN}
        assert shop.asked(local, shop.transactions_id).state is (COMMIT if commits else ROLLBACK)
    shop.check(*([1] if commits else []))


def test_a_claim_that_is_faster_makes_the_commit_fail(shop: Shop) -> None:
    with shop.sibling() as sibling, pytest.raises(TransactionClaimed), shop.transactions.begin() as tx:
        tx.send(Message("orders", "1"))
        assert shop.asked(sibling._started()[0], tx.transaction_id or "").state is ROLLBACK
        tx.session.execute(text("INSERT INTO orders VALUES (1)"))
    assert shop.outcomes() == [2]
    shop.check()


@pytest.mark.slow
@only("postgresql", "mariadb")
@pytest.mark.gantry(broker={"transactionTimeOut": 1000, "transactionCheckInterval": 1000})
def test_a_check_behind_a_long_local_transaction_ends_soon_and_others_go_on(shop: Shop) -> None:
    """The claim waits for the row that the long transaction has inserted, but for the time of ``claim_timeout`` only;
    meanwhile another transaction of the same dead process is settled."""
    with shop.sibling(claim_timeout=0.5) as sibling:
        long = shop.transactions.begin().__enter__()
        other = shop.transactions.begin().__enter__()
        long.send(Message("orders", "1"))
        other.send(Message("orders", "2"))
        shop.gantry.wait_until(lambda: len(shop.gantry.open_transactions()) == 2)
        holder = shop.place.connect()
        cursor = holder.cursor()
        cursor.execute(f"INSERT INTO gantrymq_outcomes VALUES ('{long.transaction_id}', 1, 'service')")
        cursor.execute("INSERT INTO orders VALUES (1)")
        shop.kill()
        shop.gantry.wait_until(lambda: len(shop.gantry.open_transactions()) == 1, 60)
        mark = sibling._started()[0].ask(Query.CLAIM, long.transaction_id or "")
        assert isinstance(mark, Failed)
        assert shop.announced() == [], "the first one is not decided"
        holder.commit()
        holder.close()
        for tx in (long, other):
            tx.session.close()
        shop.check(1)


# Errors of the database.


def broken(shop: Shop, how: str) -> Local:
    """A check-back's side of a database that cannot answer, and was all right when the process started."""
    place = shop.place
    if how == "unreachable":
        if place.kind == "sqlite":
            pytest.skip("a file is always reachable")
        local = Local(SqlAlchemyDatabase(engine := shop.new_engine()), shop.transactions._settings)
        engine.dispose()
        local._port = BlockingDatabase(SqlAlchemyDatabase(shop.new_engine(port=1)))
        return local
    options: dict[str, Any] = {}
    if how == "read-only":
        if place.kind == "postgresql":
            place.execute(f"ALTER DATABASE {place.name} SET default_transaction_read_only = on")
        elif place.kind == "mariadb":
            options["connect_args"] = {"init_command": "SET SESSION TRANSACTION READ ONLY"}
    engine = shop.new_engine(**options)
    if place.kind == "sqlite" and how == "read-only":
        event.listen(engine, "connect", lambda connection, record: connection.execute("PRAGMA query_only = on"))
    local = Local(SqlAlchemyDatabase(engine), shop.transactions._settings)
    if how == "no table":
        place.execute("ALTER TABLE gantrymq_outcomes RENAME TO elsewhere")
    if how == "another column":
        place.execute("ALTER TABLE gantrymq_outcomes RENAME COLUMN note TO remark")
    return local


@pytest.mark.parametrize("how", ["no table", "another column", "read-only", "unreachable"])
def test_no_error_of_the_database_is_an_outcome(shop: Shop, how: str) -> None:
    """dtm, issue 535: the check read an error as "not there", and a committed transaction was rolled back. A replica or
    a server that became read-only is such an error, too: what it does not have may be elsewhere."""
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
    local = broken(shop, how)
    for which in (tx.transaction_id or "", "f" * 32):
        answer = shop.asked(local, which)
        if how == "read-only" and which != "f" * 32:
            assert answer.state is COMMIT, "it can be read"
        else:
            assert answer.state is UNKNOWN and answer.remark, answer
            print(answer.remark)


def test_a_row_that_nobody_can_have_written_is_no_outcome(shop: Shop) -> None:
    shop.place.execute(f"INSERT INTO gantrymq_outcomes VALUES ('{'f' * 32}', 7, 'service')")
    with pytest.raises(ValueError, match="7 is not a valid Outcome"):  # which a check-back answers with UNKNOWN
        shop.asked(shop.local(), "f" * 32)


@only("postgresql")
def test_a_replica_that_lacks_the_row_decides_nothing(shop: Shop) -> None:
    """After a failover to a replica that is behind and read-only. It has the identity of the primary."""
    shop.transactions.close()
    shop.engine.dispose()
    shop.place.execute(f"CREATE DATABASE {shop.place.name}_replica TEMPLATE {shop.place.name}")
    replica = Place("postgresql", f"{shop.place.name}_replica", shop.place.port, shop.place.user)
    try:
        replica.execute(f"ALTER DATABASE {replica.name} SET default_transaction_read_only = on")
        with shop.sibling() as sibling, sibling.begin() as tx:
            shop.pay(tx, 1)
        engine = engine_of(replica, shop.level)
        local = Local(SqlAlchemyDatabase(engine), shop.transactions._settings)
        answer = shop.asked(local, tx.transaction_id or "", local.identity)
        engine.dispose()
        assert answer.state is UNKNOWN and "read-only" in (answer.remark or "")
    finally:
        replica.drop()


def test_without_its_table_a_service_says_what_to_do(shop: Shop) -> None:
    shop.place.execute("DROP TABLE gantrymq_outcomes")
    with pytest.raises(ConfigError, match=r"no table gantrymq_outcomes: call create_table\(\)"):
        shop.sibling().start()


@pytest.mark.slow
@pytest.mark.gantry(broker={"transactionTimeOut": 1000, "transactionCheckInterval": 1000})
def test_a_process_of_the_same_group_with_another_database_decides_nothing(
    sqlite: Place, gantry: LocalCluster, tmp_path: Any
) -> None:
    gantry.create_topic("orders")
    engines = [create_engine(f"sqlite:///{tmp_path}/{name}.db") for name in "ab"]
    first, wrong, right = (
        Transactions("service", engine, name_servers=gantry.name_servers)
        for engine in (engines[0], engines[1], engines[0])
    )
    first.create_table()
    wrong.create_table()
    with wrong:
        with first.begin() as tx:
            tx.send(Message("orders", "1"))
            gantry.wait_until(lambda: len(gantry.open_transactions()) == 1)
            gantry.kill(first._started()[1])
        gantry.wait_until(lambda: gantry.open_transactions()[0].checks >= 2, 60)
        assert gantry.messages("orders") == []
    with right:
        gantry.wait_until(lambda: not gantry.open_transactions(), 60)
    assert [message.body for message in gantry.messages("orders")] == [b"1"]
    first.close()
    for engine in engines:
        engine.dispose()


# Clocks.


@pytest.mark.parametrize("hours", [-1, 1])
def test_clocks_may_differ_by_an_hour(shop: Shop, hours: int) -> None:
    class Wrong(SystemClock):
        def wall_ms(self) -> int:
            return super().wall_ms() + hours * 3_600_000

    with shop.sibling() as sibling, shop.sibling() as cleaner:
        shop.local().clock = Wrong()
        with shop.transactions.begin() as tx:
            shop.pay(tx, 1)
        with pytest.raises(ZeroDivisionError), shop.transactions.begin() as lost:
            shop.pay(lost, 2)
            1 / 0  # noqa: B018
        cleaner.clean()
        shop.transactions.clean()
        local = sibling._started()[0]
        assert shop.asked(local, tx.transaction_id or "").state is COMMIT
        assert shop.asked(local, lost.transaction_id or "").state is ROLLBACK
    shop.check(1)


# Connections that die.


@only("postgresql", "mariadb")
def test_connections_in_the_pool_that_died(shop: Shop) -> None:
    """A check-back uses a new one. The local transaction's error is the user's."""
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
    shop.place.kill_connections()
    assert shop.asked(shop.local(), tx.transaction_id or "").state is COMMIT
    with shop.transactions.begin() as tx:
        shop.pay(tx, 2)
    shop.place.kill_connections()
    with pytest.raises(Exception, match=r"(?i)terminat|lost|gone|killed"), shop.transactions.begin() as tx:
        tx.send(Message("orders", "3"))
        tx.session.execute(text("INSERT INTO orders VALUES (3)"))
    with shop.transactions.begin() as tx:
        shop.pay(tx, 4)
    shop.check(1, 2, 4)


@only("postgresql", "mariadb")
def test_connections_in_the_pool_that_died_before_the_start(shop: Shop) -> None:
    engine = shop.new_engine()
    with engine.connect():
        pass
    shop.place.kill_connections()
    with shop.sibling(engine) as sibling, sibling.begin() as tx:
        shop.pay(tx, 1)
    shop.check(1)


@only("postgresql", "mariadb")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_that_dies_before_or_after_the_server_has_committed(shop: Shop, moment: Moment) -> None:
    with CuttingProxy(shop.place.port) as proxy, shop.sibling(shop.new_engine(port=proxy.port)) as transactions:
        block = transactions.begin()
        if moment == "before":
            with pytest.raises(Exception, match=r"(?i)lost|closed"), block as tx:
                shop.pay(tx, 1)
                proxy.cut(moment)
        else:
            with block as tx:
                shop.pay(tx, 1)
                proxy.cut(moment)
        assert proxy.cuts == 1
        shop.check(*([] if moment == "before" else [1]))


@pytest.mark.slow
@only("postgresql", "mariadb")
@pytest.mark.gantry(broker={"transactionTimeOut": 1000, "transactionCheckInterval": 1000})
def test_a_commit_that_nobody_can_be_asked_about_is_unknown_and_settled_later(shop: Shop) -> None:
    with (
        CuttingProxy(shop.place.port) as proxy,
        shop.sibling(shop.new_engine(port=proxy.port), longest_transaction=1) as transactions,
    ):
        local = transactions._started()[0]
        port = local._port
        with pytest.raises(OutcomeUnknown) as caught, transactions.begin() as tx:
            shop.pay(tx, 1)
            proxy.cut("after")
            local._port = BlockingDatabase(SqlAlchemyDatabase(shop.new_engine(port=1)))
        assert caught.value.transaction_id == tx.transaction_id
        local._port = port
        shop.check(1)


# Serialization.


@only("postgresql", "mariadb")
def test_run_repeats_what_could_not_be_serialized_and_no_message_comes_twice(shop: Shop) -> None:
    tries: list[int] = []
    meet = threading.Barrier(2)

    def pay(tx: Any, number: int) -> int:
        tries.append(number)
        before = tx.session.execute(text("SELECT n FROM stock WHERE id = 1")).scalar_one()
        shop.pay(tx, number)
        if len(tries) <= 2:
            meet.wait(30)  # both have read
        tx.session.execute(text(f"UPDATE stock SET n = {before + 1} WHERE id = 1"))
        return number

    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda number: shop.transactions.run(lambda tx: pay(tx, number), attempts=20), (1, 2))
        assert sorted(done) == [1, 2]
    shop.check(1, 2)
    if shop.level == "SERIALIZABLE":
        assert len(tries) > 2
        assert shop.place.execute("SELECT n FROM stock") == [(2,)]


def test_run_gives_up_with_the_last_error(shop: Shop) -> None:
    tries: list[str] = []

    def work(tx: Any) -> None:
        shop.pay(tx, 1)
        tries.append(tx.transaction_id)
        raise TransactionClaimed(tx.transaction_id)

    with pytest.raises(TransactionClaimed) as caught:
        shop.transactions.run(work, attempts=3)
    assert len(set(tries)) == 3 and caught.value.transaction_id == tries[-1]
    shop.check()


# Sessions.


def test_savepoints(shop: Shop) -> None:
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        with tx.session.begin_nested():
            shop.pay(tx, 2)
            with pytest.raises(ZeroDivisionError), tx.session.begin_nested():
                shop.pay(tx, 3)
                with tx.session.begin_nested():
                    shop.pay(tx, 4)
                1 / 0  # noqa: B018
        outer = tx.session.begin_nested()
        with tx.session.begin_nested():
            shop.pay(tx, 5)
        outer.rollback()
        tx.send()
        shop.pay(tx, 6)
    shop.check(1, 2, 6)
    with shop.transactions.begin() as tx, pytest.raises(ZeroDivisionError), tx.session.begin_nested():
        shop.pay(tx, 7)
        1 / 0  # noqa: B018
    assert len(shop.outcomes()) == 1, "a transaction whose messages were all dropped needs no row"
    shop.check(1, 2, 6)


@pytest.mark.slow
def test_a_dropped_message_is_not_delivered_though_its_rollback_is_lost(shop: Shop) -> None:
    """Its half message has the id of the transaction. A check-back after the commit would find the row."""
    with pytest.raises((Unreachable, Closed, HalfNotStored, TimedOut)), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        shop.gantry.wait_until(lambda: len(shop.gantry.open_transactions()) == 1)
        with pytest.raises(ZeroDivisionError), tx.session.begin_nested():
            shop.pay(tx, 2)
            shop.gantry.wait_until(lambda: len(shop.gantry.open_transactions()) == 2)
            shop.kill()
            1 / 0  # noqa: B018
    with shop.sibling():
        shop.check()


class OwnSession(Session):
    """A user's own class."""


@pytest.mark.parametrize("form", ["sessionmaker", "scoped_session", "class", "class and sessionmaker", "begin()"])
def test_attach(shop: Shop, form: str) -> None:
    class Mine(OwnSession):
        """Each test has its own: a class can be attached once."""

    maker: Any = sessionmaker(shop.engine, class_=Mine)
    attached: Any = {"scoped_session": scoped_session(maker), "class": Mine}.get(form, maker)
    shop.transactions.attach(attached)
    if form == "class and sessionmaker":
        shop.transactions.attach(Mine)
    with pytest.raises(ConfigError, match="attached already"):
        shop.transactions.attach(attached)
    for number, ends in ((1, "commit"), (2, "rollback"), (3, "close")):
        session = (attached() if form == "scoped_session" else maker()) if form != "begin()" else maker()
        session.execute(text(f"INSERT INTO orders VALUES ({number})"))
        send(attached if form == "scoped_session" else session, Message("orders", str(number)))
        getattr(session, ends)()
        session.close()
    with maker.begin() as session:
        send(session, Message("orders", "4"))
        session.execute(text("INSERT INTO orders VALUES (4)"))
    with maker() as session, pytest.raises(ZeroDivisionError):
        send(session, Message("orders", "5"))
        1 / 0  # noqa: B018
    shop.check(1, 4)


def test_a_session_may_be_used_again_and_again(shop: Shop) -> None:
    maker = sessionmaker(shop.engine)
    shop.transactions.attach(maker)
    with maker() as session:
        for number in (1, 2, 3):
            session.execute(text(f"INSERT INTO orders VALUES ({number})"))
            send(session, Message("orders", str(number)))
            session.rollback() if number == 2 else session.commit()
    shop.check(1, 3)


def test_what_cannot_be_attached_or_take_messages(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="attach takes a sessionmaker"):
        shop.transactions.attach("sqlite://")  # type: ignore[arg-type]
    with Session(shop.engine) as session, pytest.raises(ConfigError, match=r"call transactions\.attach"):
        send(session, Message("orders", "1"))
    with pytest.raises(ConfigError, match="send takes a session"):
        send(shop.engine, Message("orders", "1"))  # type: ignore[arg-type]
    maker = sessionmaker(shop.engine, twophase=True)
    shop.transactions.attach(maker)
    with maker() as session, pytest.raises(ConfigError, match="twophase"):
        send(session, Message("orders", "1"))


def test_a_session_bound_to_a_connection_is_refused_unless_it_is_trusted(shop: Shop) -> None:
    strict, trusting = sessionmaker(), sessionmaker(join_transaction_mode="create_savepoint")
    shop.transactions.attach(strict)
    shop.transactions.attach(trusting, trust_outer=True)
    with shop.engine.connect() as connection, connection.begin() as outer:
        with strict(bind=connection) as session, pytest.raises(ConfigError, match="trust_outer=True"):
            send(session, Message("orders", "1"))
        with trusting(bind=connection) as session:
            send(session, Message("orders", "2"))
            session.commit()
        assert shop.announced() == [2], "whatever becomes of the connection's own transaction"
        outer.rollback()
    shop.settled()


@pytest.mark.slow
@pytest.mark.gantry(broker={"transactionTimeOut": 1000, "transactionCheckInterval": 1000})
@pytest.mark.parametrize("stage", ["open", "prepared"])
def test_a_session_that_is_forgotten_is_rolled_back(shop: Shop, stage: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody closes it: the garbage collector does, and ends its half messages. They stayed open for ever, because
    check-backs were told that the local transaction is still running."""
    transactions = shop.sibling(longest_transaction=1)
    tx = transactions.begin().__enter__()
    shop.pay(tx, 1)
    shop.gantry.wait_until(lambda: len(shop.gantry.open_transactions()) == 1)
    if stage == "prepared":
        enlistment = tx._enlistment
        assert enlistment is not None
        connection = tx.session.connection()
        enlistment.prepare(lambda statement: connection.exec_driver_sql(*statement))
        del enlistment, connection
    del tx
    gc.collect()
    shop.check()
    transactions.close()
    assert "a local transaction with 1 message(s) was forgotten" in caplog.text


def test_messages_sent_by_several_threads(shop: Shop) -> None:
    with shop.transactions.begin() as tx:
        start = threading.Barrier(4)

        def work(worker: int) -> None:
            start.wait(30)
            for number in range(worker * 10, worker * 10 + 10):
                tx.send(Message("orders", str(number)))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        for number in range(40):
            tx.session.execute(text(f"INSERT INTO orders VALUES ({number})"))
    shop.check(*range(40))


@pytest.mark.parametrize("first", [True, False])
def test_a_message_sent_in_the_flush_of_the_commit(shop: Shop, first: bool) -> None:
    """SQLAlchemy flushes after its event before_commit: the first message may come when all seems to be over."""
    maker = sessionmaker(shop.engine)
    shop.transactions.attach(maker)
    event.listen(maker, "before_flush", lambda session, *_: send(session, Message("orders", "1")))
    with maker() as session:
        session.add(Order(id=1))
        if not first:
            send(session, Message("orders", "2"))
            session.add(Order(id=2))
        session.commit()
    shop.check(*([1] if first else [1, 2]))


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_an_error_in_another_listener_of_the_commit(shop: Shop, order: str) -> None:
    maker = sessionmaker(shop.engine)

    def fail(session: Session) -> None:
        raise RuntimeError("another listener")

    if order == "theirs first":
        event.listen(maker, "before_commit", fail)
    shop.transactions.attach(maker)
    if order == "ours first":
        event.listen(maker, "before_commit", fail)
    with pytest.raises(RuntimeError, match="another listener"), maker.begin() as session:
        session.execute(text("INSERT INTO orders VALUES (1)"))
        send(session, Message("orders", "1"))
    shop.check()


def test_an_error_behind_the_commit_changes_nothing(shop: Shop) -> None:
    maker = sessionmaker(shop.engine)

    def fail(session: Session) -> None:
        raise RuntimeError("behind the commit")

    event.listen(maker, "after_commit", fail)
    shop.transactions.attach(maker)
    with pytest.raises(RuntimeError, match="behind the commit"), maker.begin() as session:
        session.execute(text("INSERT INTO orders VALUES (1)"))
        send(session, Message("orders", "1"))
    shop.check(1)


@pytest.mark.gantry(broker={"autoCreateTopicEnable": "false"})
def test_a_message_that_cannot_be_sent_rolls_back(shop: Shop) -> None:
    with pytest.raises(RouteNotFound), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        tx.send(Message("no-such-topic", "x"))
    shop.check()


def test_a_delayed_message_is_refused_in_a_transaction(shop: Shop) -> None:
    with shop.transactions.begin() as tx:
        tx.session.connection().execute(text("SELECT 1"))
        with pytest.raises(MessageIllegal, match="cannot be delayed: brokers lose it"):
            tx.send(Message("orders", "2", delay_level=1))
        tx.send(Message("orders", "3"))
    assert shop.gantry.open_transactions() == []
