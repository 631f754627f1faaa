"""One worker of the order service: pays its share of the orders, each in a transaction with its message.

The demo runs each worker in a process of its own. The worker reads commands from standard input (``limit N``: orders
with a number below N may be paid; ``stop``, or the end of the input: close and end), and writes events to standard
output as JSON lines. All workers are members of one producer group, so each answers check-backs for the others.

An order is paid at most once, whatever fails: the payment changes it only while it is ``new``, in the same transaction
of the database that its message belongs to. So a transaction that failed may be run again.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import msgspec

from gantrymq.demo.decisions import open_transactions
from gantrymq.demo.order_database import (
    AlreadyDecided,
    CardDeclined,
    Order,
    OrderDatabase,
    pay,
    transactions_of,
)
from gantrymq.demo.orders import CARD_LIMIT_CENTS, EMPTY_CARD_CENTS, make_order
from gantrymq.demo.plan import HANGING, Fate, Plan, make_plan
from gantrymq.errors import GantryError, TransactionClaimed
from gantrymq.runtime.clock import SystemClock
from gantrymq.spark.pipelines.ready_made.order_event import OrderPaid
from gantrymq.sql import ConnectionTransaction

THREADS = 4
"""Orders that one worker pays at the same time, beside those that hang."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
MAX_TRIES = 200
"""With the pauses above this takes more than two minutes, longer than any restart of the broker."""

HANG_SECONDS = 30.0
"""A payment hangs until a check-back has decided its transaction, but not for longer than this."""
LOOK_SECONDS = 0.5


def tell(event: str, **more: object) -> None:
    """Report one event to the demo. It is one write, so that the lines of several threads do not mix."""
    os.write(1, msgspec.json.encode({"event": event, **more}) + b"\n")


def fall_silent(event: str, order: Order) -> NoReturn:
    """Report it, and do nothing more: the demo kills this process now."""
    tell(event, order=order.order_id)
    while True:
        threading.Event().wait()


class Payments:
    """Pays orders, and fails as the plan says."""

    def __init__(self, database: Path, group: str, name_servers: str, topic: str) -> None:
        self._path = database
        self._name_servers = name_servers
        self._topic = topic
        self.transactions = transactions_of(database, group, name_servers, topic)
        self._clock = SystemClock()
        self.ended = threading.Event()
        """The worker is to end, so nothing hangs any more."""

    def try_to_pay(self, order: Order, fate: Fate) -> None:
        """One local transaction. Raises GantryError when it failed, or must be run again."""
        event = OrderPaid(order.order_id, order.user_id, order.amount_cents, self._clock.wall_ms())
        limit = EMPTY_CARD_CENTS if fate is Fate.DECLINED else CARD_LIMIT_CENTS
        try:
            with self.transactions.begin() as tx:
                tx.send(event.message(self._topic))
                self._fail(tx, order, fate)
                pay(tx, order, limit)
        except CardDeclined:
            with closing(OrderDatabase(self._path)) as database:
                database.give_up(order)
        except AlreadyDecided:
            return

    def is_new(self, order: Order) -> bool:
        with closing(OrderDatabase(self._path)) as database:
            return database.is_new(order.order_id)

    def _fail(self, tx: ConnectionTransaction, order: Order, fate: Fate) -> None:
        """Do what interrupts the transaction now, or let its commit do it."""
        transaction_id = tx.transaction_id or ""
        if fate is Fate.HANGS_BEFORE_COMMIT:
            self._hang(self._has_outcome, transaction_id)
        elif fate is Fate.HANGS_AFTER_COMMIT:
            tx.connection.after_commit = lambda: self._hang(self._is_ended, transaction_id)
        elif fate is Fate.KILLED_BEFORE_COMMIT:
            tx.connection.before_commit = lambda: fall_silent("uncommitted_and_silent", order)
        elif fate is Fate.KILLED_AFTER_COMMIT:
            tx.connection.after_commit = lambda: fall_silent("committed_and_silent", order)

    def _hang(self, decided: Callable[[str], bool], transaction_id: str) -> None:
        """Hang until a check-back has decided the transaction."""
        deadline = self._clock.monotonic() + HANG_SECONDS
        while self._clock.monotonic() < deadline and not decided(transaction_id):
            if self.ended.wait(LOOK_SECONDS):
                return

    def _has_outcome(self, transaction_id: str) -> bool:
        with closing(OrderDatabase(self._path)) as database:
            return database.has_outcome(transaction_id)

    def _is_ended(self, transaction_id: str) -> bool:
        try:
            return transaction_id not in open_transactions(self._name_servers)
        except GantryError:
            return False  # the broker is down


class Gate:
    """How many orders may be paid. The demo raises this limit, so that all workers have the same pace."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._limit = 0
        self._closed = False

    def raise_to(self, limit: int) -> None:
        with self._changed:
            self._limit = max(self._limit, limit)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    def wait_for(self, number: int) -> bool:
        """Wait until the order may be paid; False when the worker is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or number < self._limit)
            return not self._closed


class Worker:
    """Pays the orders ``share, share + shares, ...`` of the plan with a few threads."""

    def __init__(self, options: argparse.Namespace, plan: Plan, payments: Payments) -> None:
        self._options = options
        self._plan = plan
        self._payments = payments
        self._clock = SystemClock()
        self._next = threading.Lock()
        self._numbers: Iterator[int] = iter(range(options.share, len(plan.fates), options.shares))
        self.gate = Gate()

    def run(self) -> None:
        """Pay until every order of the share is decided or the gate is closed."""
        threads = [threading.Thread(target=self._pay_orders, name=f"pay-{index}") for index in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _pay_orders(self) -> None:
        hanging = []
        while (number := self._take()) is not None and self.gate.wait_for(number):
            order = make_order(number, len(self._plan.fates), self._options.seed)
            fate = Fate.PAID if order.order_id in self._options.unharmed else self._plan.fates[number]
            if fate in HANGING:  # a thread of its own, so that the others keep the pace
                thread = threading.Thread(target=self._pay, args=(order, fate), name=f"pay-{order.order_id}")
                thread.start()
                hanging.append(thread)
            else:
                self._pay(order, fate)
        for thread in hanging:
            thread.join()

    def _take(self) -> int | None:
        with self._next:
            return next(self._numbers, None)

    def _pay(self, order: Order, fate: Fate) -> None:
        """Try until the order is decided; see the docstring of the module."""
        pause = FIRST_PAUSE_SECONDS
        for _ in range(MAX_TRIES):
            if self.gate.closed or not self._payments.is_new(order):
                return
            try:
                self._payments.try_to_pay(order, fate)
            except TransactionClaimed:
                fate = Fate.PAID  # it hangs once
            except GantryError as error:
                tell("send_failed", order=order.order_id, error=str(error))
                self._clock.block(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        if self._payments.is_new(order):
            tell("gave_up", order=order.order_id)


def follow_input(gate: Gate, ended: threading.Event) -> None:
    """Execute the commands of the demo until the input ends."""
    for line in sys.stdin:
        verb, _, number = line.strip().partition(" ")
        if verb == "limit":
            gate.raise_to(int(number))
        elif verb == "stop":
            break
    gate.close()
    ended.set()


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gantrymq.demo.order_service")
    parser.add_argument("--name-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--orders", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--share", type=int, required=True)
    parser.add_argument("--shares", type=int, required=True)
    parser.add_argument("--unharmed", nargs="*", default=[], help="orders whose process was killed once")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse(sys.argv[1:])
    payments = Payments(options.database, options.group, options.name_servers, options.topic)
    with payments.transactions:
        worker = Worker(options, make_plan(options.orders, options.seed), payments)
        threading.Thread(target=follow_input, args=(worker.gate, payments.ended), daemon=True, name="input").start()
        tell("started")
        worker.run()
        tell("finished")
        payments.ended.wait()  # the worker still answers check-backs for the whole group


if __name__ == "__main__":
    main()
