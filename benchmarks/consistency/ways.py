"""The ways to pay an order and tell the three other services, and one that tells nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from sqlalchemy import create_engine, text
from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session, sessionmaker

from benchmarks.consistency import setting as names
from benchmarks.consistency.schema import PAY
from benchmarks.consistency.setting import ORDERS, OUTBOX_QUEUE, TOPIC, Order, Setting
from benchmarks.consistency.two_phase import TwoPhase
from gantrymq import Message, Producer
from gantrymq.sql import Transactions

POOL: Final = 40
"""Connections to a database: more than there are client threads."""
PAID: Final = text(PAY.replace("%(order)s", ":order"))


class Way(Protocol):
    """How the order service pays an order, in one of its threads."""

    def pay(self, order: Order) -> None:
        """Returns when the order is paid. Raises when it may not be."""


class NotOpen(Exception):
    """The order is paid already, or there is none."""


def engine_of(setting: Setting) -> Engine:
    return create_engine(setting.url(ORDERS), pool_size=POOL, pool_pre_ping=False)


def mark_paid(session: Session, order: Order) -> None:
    """The local work, the same for all."""
    changed: Any = session.execute(PAID, {"order": order.number})
    if changed.rowcount != 1:
        raise NotOpen(f"order {order.number}")


def message_of(order: Order) -> Message:
    return Message(TOPIC, order.body(), keys=[str(order.number)])


class LocalOnly:
    """What the database alone costs: no other service hears of the order."""

    def __init__(self, setting: Setting) -> None:
        self._sessions = sessionmaker(engine_of(setting))

    def pay(self, order: Order) -> None:
        with self._sessions.begin() as session:
            mark_paid(session, order)


class PlainMessage:
    """Commit, then send. Who dies in between has lost the message."""

    def __init__(self, setting: Setting) -> None:
        self._sessions = sessionmaker(engine_of(setting))
        self._producer = Producer("orders-plain", name_servers=setting.name_server, topics=[TOPIC])
        self._producer.start()

    def pay(self, order: Order) -> None:
        with self._sessions.begin() as session:
            mark_paid(session, order)
        self._producer.send(message_of(order))


class Outbox:
    """The message is a row of faststream-outbox in the same transaction; ``relay`` sends it.

    The library publishes in an AsyncSession only. This is its own statement, notification included, for our Session.
    """

    def __init__(self, setting: Setting) -> None:
        from sqlalchemy import func, insert

        from benchmarks.consistency.outbox_table import HEADERS, table

        self._sessions = sessionmaker(engine_of(setting))
        self._headers = HEADERS
        self._insert = insert(table).returning(table.c.id, func.pg_notify(f"outbox_{table.name}", table.c.queue))

    def pay(self, order: Order) -> None:
        row = {"queue": OUTBOX_QUEUE, "payload": order.body().encode(), "headers": self._headers}
        with self._sessions.begin() as session:
            mark_paid(session, order)
            session.execute(self._insert, row)


class TransactionMessage:
    """``gantrymq.sql``. The message is given first: its way to the broker overlaps with the update."""

    def __init__(
        self, setting: Setting, group: str = "orders-transaction", wait_for_brokers: bool = True, away: str = "refuse"
    ) -> None:
        """``away``: ``when_broker_is_away``."""
        self._transactions = Transactions(
            group, engine_of(setting), name_servers=setting.name_server, wait_for_brokers=wait_for_brokers,
            when_broker_is_away=away,
        )  # fmt: skip
        self._transactions.create_table()
        self._transactions.start()

    def pay(self, order: Order) -> None:
        with self._transactions.begin() as tx:
            tx.send(message_of(order))
            mark_paid(tx.session, order)


WAYS: Final[dict[str, Callable[[Setting], Way]]] = {
    names.LOCAL: LocalOnly,
    names.PLAIN: PlainMessage,
    names.OUTBOX_WAY: Outbox,
    names.OURS: TransactionMessage,
    names.OURS_AHEAD: lambda setting: TransactionMessage(setting, "orders-ahead", wait_for_brokers=False),
    names.OURS_ROW: lambda setting: TransactionMessage(setting, "orders-row", away="row"),
    names.OURS_ALWAYS: lambda setting: TransactionMessage(setting, "orders-always", away="always"),
    names.TWO_PHASE: TwoPhase,
}
