"""One worker of the order service: pays its share of the orders, each in a transaction with its message.

The demo runs each worker in a process of its own. The worker reads commands from standard input (``limit N``: orders
with a number below N may be paid; ``stop``, or the end of the input: close and end), and writes events to standard
output as JSON lines. All workers are members of one producer group, so each can answer checks for the others.

An order is paid at most once, whatever fails:

1. Every attempt to pay has its own message, so its own transaction id.
2. The local transaction pays the order only while it is ``new``, and decides the transaction id in the same commit.
3. If a half message was stored although its send failed, its local transaction never ran. Its check-back decides the
   transaction id as refused, and from then on this id cannot pay.
4. So a failed send may be repeated with a new message, but only while the order is ``new``.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gantrymq import LocalTransactionState, Message, TransactionProducer
from gantrymq.demo.order_database import AttemptRefused, CardDeclined, Order, OrderDatabase
from gantrymq.demo.orders import CARD_LIMIT_CENTS, EMPTY_CARD_CENTS, make_order, order_id
from gantrymq.demo.plan import Fate, Plan, make_plan
from gantrymq.errors import GantryError
from gantrymq.message.message import MessageView
from gantrymq.runtime.clock import SystemClock
from gantrymq.spark.pipelines.events import OrderPaid

THREADS = 4
"""Orders that one worker pays at the same time."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
MAX_TRIES = 200
"""With the pauses above this takes more than two minutes, longer than any restart of the broker."""

DECLINING = frozenset({Fate.DECLINED, Fate.UNKNOWN_DECLINED})
SILENT = frozenset({Fate.UNKNOWN_PAID, Fate.UNKNOWN_DECLINED})


def tell(event: str, **more: object) -> None:
    """Report one event to the demo. It is one write, so that the lines of several threads do not mix."""
    os.write(1, msgspec.json.encode({"event": event, **more}) + b"\n")


@dataclass(frozen=True, slots=True)
class Attempt:
    """The ``arg`` that ``send_in_transaction`` passes to the local transaction."""

    order: Order
    fate: Fate


class OrderListener:
    """The transaction listener: runs local transactions and answers checks."""

    def __init__(self, database: Path) -> None:
        self._path = database
        self._local = threading.local()

    @property
    def database(self) -> OrderDatabase:
        """The connection of the calling thread."""
        found: OrderDatabase | None = getattr(self._local, "database", None)
        if found is None:
            found = self._local.database = OrderDatabase(self._path)
        return found

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        attempt: Attempt = arg
        transaction_id = message.transaction_id or ""
        limit = EMPTY_CARD_CENTS if attempt.fate in DECLINING else CARD_LIMIT_CENTS
        answer = LocalTransactionState.COMMIT
        try:
            self.database.pay(attempt.order, transaction_id, limit)
        except CardDeclined:
            self.database.give_up(attempt.order, transaction_id)
            answer = LocalTransactionState.ROLLBACK
        except AttemptRefused:
            return LocalTransactionState.ROLLBACK
        if attempt.fate is Fate.PRODUCER_KILLED:
            tell("committed_and_silent", order=attempt.order.order_id)
            threading.Event().wait()  # the demo kills this process now
        return LocalTransactionState.UNKNOWN if attempt.fate in SILENT else answer

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        paid = self.database.settle(message.keys[0], message.transaction_id or "")
        return LocalTransactionState.COMMIT if paid else LocalTransactionState.ROLLBACK


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

    def __init__(
        self, options: argparse.Namespace, plan: Plan, producer: TransactionProducer, listener: OrderListener
    ) -> None:
        self._options = options
        self._plan = plan
        self._producer = producer
        self._listener = listener
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
        while (number := self._take()) is not None and self.gate.wait_for(number):
            self._pay(number)

    def _take(self) -> int | None:
        with self._next:
            return next(self._numbers, None)

    def _pay(self, number: int) -> None:
        """Try until the order is decided; see the docstring of the module."""
        order = make_order(number, len(self._plan.fates), self._options.seed)
        pause = FIRST_PAUSE_SECONDS
        for _ in range(MAX_TRIES):
            if self.gate.closed or not self._listener.database.is_new(order_id(number)):
                return
            event = OrderPaid(order.order_id, order.user_id, order.amount_cents, self._clock.wall_ms())
            message = event.message(self._options.topic)
            try:
                result = self._producer.send_in_transaction(message, Attempt(order, self._plan.fates[number]))
            except GantryError as error:
                tell("send_failed", order=order.order_id, error=str(error))
                self._clock.block(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                continue
            if result.decided and result.transaction_id:
                self._listener.database.confirm(result.transaction_id)
        if self._listener.database.is_new(order_id(number)):
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
    return parser.parse_args(arguments)


def main() -> None:
    options = parse(sys.argv[1:])
    listener = OrderListener(options.database)
    with TransactionProducer(
        options.group, name_servers=options.name_servers, listener=listener, topics=(options.topic,)
    ) as producer:
        worker = Worker(options, make_plan(options.orders, options.seed), producer, listener)
        ended = threading.Event()
        threading.Thread(target=follow_input, args=(worker.gate, ended), daemon=True, name="input").start()
        tell("started")
        worker.run()
        tell("finished")
        ended.wait()  # the worker still answers check-backs for the whole group


if __name__ == "__main__":
    main()
