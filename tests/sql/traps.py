"""What the tests of traps share: databases at their usual and at their strictest isolation level, and a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text

from gantrymq import Message
from gantrymq.client.listener import ListenerAnswer
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql import SessionTransactions, Transactions
from gantrymq.sql.sqlalchemy import last_statement
from gantrymq.sql.transaction.checker import OutcomeChecker
from gantrymq.sql.transaction.local import Local
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place

LEVELS = [
    ("postgresql", "READ COMMITTED"),
    ("postgresql", "SERIALIZABLE"),
    ("mariadb", "REPEATABLE READ"),
    ("mariadb", "SERIALIZABLE"),
    ("sqlite", "DELETE"),
    ("sqlite", "WAL"),
]
"""Of SQLite, which is always serializable, the journal mode."""
COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN


@dataclass
class Shop:
    """A database with a table of orders, a broker, and a service that pays orders."""

    gantry: LocalCluster
    place: Place
    level: str
    engine: Engine
    transactions: SessionTransactions = field(init=False)
    engines: list[Engine] = field(default_factory=list)

    def pay(self, tx: Any, number: int) -> None:
        tx.session.execute(text(f"INSERT INTO orders VALUES ({number})"))
        tx.send(Message("orders", str(number)))

    def paid(self) -> list[int]:
        return [row[0] for row in self.place.execute("SELECT id FROM orders ORDER BY id")]

    def announced(self) -> list[int]:
        return sorted(int(message.body) for message in self.gantry.messages("orders"))

    def outcomes(self) -> list[int]:
        return [row[0] for row in self.place.execute("SELECT outcome FROM gantrymq_outcomes WHERE outcome > 0")]

    def settled(self) -> None:
        """Wait until no half message is open."""
        self.gantry.wait_until(lambda: not self.gantry.open_transactions(), 60)

    def check(self, *numbers: int) -> None:
        """These orders are paid and announced, and no others; nothing is open."""
        self.settled()
        assert (self.paid(), self.announced()) == (list(numbers), list(numbers))

    def kill(self) -> None:
        """Cut the service off from its brokers, as when its process dies. Its database goes on."""
        self.gantry.kill(self.transactions._started()[1])

    def new_engine(self, port: int | None = None, **options: Any) -> Engine:
        made = engine_of(self.place if port is None else replace(self.place, port=port), self.level, **options)
        self.engines.append(made)
        return made

    def sibling(self, engine: Engine | None = None, **settings: Any) -> SessionTransactions:
        """Another process of the service."""
        return Transactions("service", engine or self.new_engine(), name_servers=self.gantry.name_servers, **settings)

    def local(self) -> Local:
        return self.transactions._started()[0]

    def asked(self, local: Local, transaction_id: str, identity: str | None = None) -> ListenerAnswer:
        """What a check-back answers."""
        mark = f"{transaction_id} {self.local().identity if identity is None else identity}"
        view = MessageView(
            "orders", b"", {"GANTRY_LOCAL_TRANSACTION": mark}, 0, MessageQueue("orders", "b", 0), 0, "m", "m", 0, "", 0,
            "", 0, 0,
        )  # fmt: skip
        return OutcomeChecker(local.ask).check_local_transaction(view)

    def before_the_commit(self, call: Callable[[], object]) -> None:
        """Call this when the outcome row is inserted, and the database has not committed yet."""
        last_statement._dialects.discard(self.engine.dialect)  # together with the commit there is no such moment
        event.listen(self.transactions._sessions.class_, "before_commit", lambda session: call())


def engine_of(place: Place, level: str, **options: Any) -> Engine:
    if place.kind != "sqlite":
        return create_engine(place.url(), isolation_level=level, **options)
    made = create_engine(place.url(), connect_args={"timeout": 2}, **options)
    event.listen(made, "connect", lambda connection, record: connection.execute(f"PRAGMA journal_mode = {level}"))
    return made


def only(*kinds: str) -> pytest.MarkDecorator:
    """The levels of some databases."""
    chosen = [level for level in LEVELS if level[0] in kinds]
    return pytest.mark.parametrize("level", chosen, ids=[" ".join(one) for one in chosen], indirect=True)


@pytest.fixture(params=LEVELS, ids=[" ".join(one) for one in LEVELS])
def level(request: pytest.FixtureRequest) -> tuple[Place, str]:
    """A database, and how strict it is."""
    kind, name = request.param
    place: Place = request.getfixturevalue(kind)
    if (kind, name) == ("postgresql", "SERIALIZABLE"):  # also for the statements of check-backs
        place.execute(f"ALTER DATABASE {place.name} SET default_transaction_isolation = 'serializable'")
    return place, name


@pytest.fixture
def shop(level: tuple[Place, str], gantry: LocalCluster) -> Iterator[Shop]:
    place, name = level
    made = Shop(gantry, place, name, engine_of(place, name))
    place.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY)", "CREATE TABLE stock (id INTEGER PRIMARY KEY, n INTEGER)"
    )
    place.execute("INSERT INTO stock VALUES (1, 0)")
    gantry.create_topic("orders")
    made.transactions = Transactions("service", made.engine, name_servers=gantry.name_servers)
    made.transactions.create_table()
    with made.transactions:
        yield made
    for engine in (made.engine, *made.engines):
        engine.dispose()
