"""The processes that are killed: a service that pays orders, and a sibling that answers check-backs for it.

A service works with sessions, or with connections of Core whose engine is attached: by chance.

Both are forked from the test's process, which has imported everything and has no threads. They never return.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from gantrymq import Message
from gantrymq.errors import GantryError
from gantrymq.sql import SessionTransactions, Transactions, send
from gantrymq.sql.transaction import relay
from tests.sql.kill.points import DELIVERY_ORDERED, Points, watch_relay, watch_service, watch_sibling

GROUP = "orders"
ORDERS, POINTS = "orders-paid", "points-earned"
"""Topics: an order sends two messages to the first one, and one to the other."""
CORE = 0.4
"""How many of the services work with connections of Core."""
COPIES = {ORDERS: 2, POINTS: 1}
DELIVERS_SECONDS = 3.0
CUSTOMERS = tuple(f"customer-{number}" for number in range(5))
"""Ordering keys: there are several orders of a customer at the same time."""
COUNTERS = "CREATE TABLE customers (id VARCHAR(40) PRIMARY KEY, orders INTEGER NOT NULL)"
"""The number of orders of each customer. A service counts it up in the transaction that sends messages of the key."""
SCHEMA = "CREATE TABLE orders (id VARCHAR(40) PRIMARY KEY, line_count INTEGER NOT NULL)"


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the processes find everything."""

    url: str
    name_servers: str
    isolation: str | None
    log: Path
    longest_s: float = 60.0
    """``longest_transaction``. A broker that asks only after that time is too late for these tests."""
    away: str = "refuse"
    """``when_broker_is_away``. With ``row``, brokers get so little time that most messages become rows."""
    ordered: bool = False
    """Messages have ordering keys, and say the how many-th of its key their order is."""

    @property
    def by_row(self) -> bool:
        return self.ordered or self.away != "refuse"

    def transactions(self, engine: Engine, **options: Any) -> SessionTransactions:
        """Also lets processes take rows from each other soon, so that several send the same one."""
        if self.by_row:
            vars(relay).update(TAKEN_MS=700, LOOK_S=0.3, RARE_LOOK_S=0.3)
            options |= {"when_broker_is_away": self.away, "row_after_ms": 1, "send_timeout_ms": 2000}
        return Transactions(GROUP, engine, name_servers=self.name_servers, **options)


def fork(work: Callable[[], None], log: Path) -> int:
    """Run ``work`` in a process of its own; its id."""
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        logging.basicConfig(level=logging.WARNING, format=f"%(asctime)s {os.getpid()} %(message)s", force=True)
        work()
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def in_child(work: Callable[[], None], log: Path) -> None:
    """Run ``work`` in a process of its own, and wait for its end. RuntimeError when it failed."""
    _, status = os.waitpid(fork(work, log), 0)
    if status:
        raise RuntimeError(f"a process of the test failed; see {log}")


def kill(process: int) -> None:
    """SIGKILL to a child, unless it has ended; 0: to nobody."""
    if process:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def serve(setting: Setting, orders: list[str], point: str | None, seed: int) -> None:
    """Pay the orders one after the other, and die at ``point`` of the last one."""
    rng, points = random.Random(seed), Points()
    engine = create_engine(setting.url, **({"isolation_level": setting.isolation} if setting.isolation else {}))
    transactions = setting.transactions(engine, longest_transaction=setting.longest_s)
    alone = point in ("after_insert", "before_commit")  # steps that are one where the row comes with the commit
    watch_service(points, engine, transactions._sessions.class_, alone=alone)
    if setting.by_row:
        watch_relay(points)
    core = not alone and rng.random() < CORE
    if core:
        transactions.attach(engine)
    transactions.start()
    for order in orders:
        if order == orders[-1]:
            points.chosen = point
            points.soon(rng.random() * 0.03)
        try:
            points.reach("started")
            if core:
                with engine.begin() as connection:
                    _pay(connection, points, order, rng, setting.ordered)
            else:
                with transactions.begin() as tx:
                    _pay(tx.session, points, order, rng, setting.ordered)
        except ZeroDivisionError:
            pass  # the order was not paid
        except (GantryError, DBAPIError) as error:  # a broker or the database was killed
            logging.warning("order %s: %s", order, str(error).splitlines()[0])
    if point in DELIVERY_ORDERED:  # rows of its keys wait for those of others, and it sends them, too
        time.sleep(DELIVERS_SECONDS)
    transactions.close()


def _pay(work: Session | Connection, points: Points, order: str, rng: random.Random, ordered: bool) -> None:
    key = number = None
    if ordered:
        key = rng.choice(CUSTOMERS)
        work.execute(text("UPDATE customers SET orders = orders + 1 WHERE id = :id"), {"id": key})
        number = work.execute(text("SELECT orders FROM customers WHERE id = :id"), {"id": key}).scalar_one()

    def message(topic: str, what: str, step: int) -> Message:
        return Message(topic, f"{order} {what}", keys=[order], properties={"place": f"{key} {number} {step}"})

    send(work, message(ORDERS, "placed", 0), order_key=key)
    points.reach("first_send")
    work.execute(text("INSERT INTO orders VALUES (:id, 1)"), {"id": order})
    work.execute(text("UPDATE orders SET line_count = 2 WHERE id = :id"), {"id": order})
    points.reach("rows")
    if rng.random() < 0.3:
        _savepoint_that_fails(work, order)
    send(work, message(ORDERS, "paid", 1), message(POINTS, "points", 0), order_key=key)
    points.reach("all_sends")
    if order.endswith("declined"):
        raise ZeroDivisionError


def _savepoint_that_fails(work: Session | Connection, order: str) -> None:
    try:
        with work.begin_nested():
            send(work, Message(ORDERS, f"{order} never", keys=[order]))
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass


def answer(setting: Setting, point: str | None) -> None:
    """Answer check-backs until killed, or until ``point``."""
    points = Points()
    points.chosen = point
    if point is not None:
        watch_sibling(points)
        if setting.by_row:
            watch_relay(points)
    engine = create_engine(setting.url)
    setting.transactions(engine, topics=list(COPIES)).start()
    while True:
        signal.pause()
