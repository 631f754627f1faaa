"""A paid order reaches logistics, points and cart, each exactly once. An order that was not paid reaches none of them.

Four services, each with its own database. One process dies after its commit, and another one answers the check-back.
"""

import json
import multiprocessing
import os
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from own_server import name_servers

from gantrymq import Message, MessageView, PushConsumer
from gantrymq.sql import Inbox, Transactions

TOPIC = "order-paid"
ORDERS = {"o-1": 30, "o-2": 12, "o-3": 99, "o-4": 45, "o-5": 7}
CARD_DECLINED, CRASHES_AFTER_COMMIT = "o-3", "o-4"


class Crashing(sqlite3.Connection):
    """Its process is gone as soon as the payment is in the database. Nobody tells the broker."""

    def commit(self) -> None:
        super().commit()
        os._exit(1)


def order_service(path: Path, address: str, connection: type[sqlite3.Connection]) -> Any:
    """Every process of the order service has these. They pay, and they answer for a process that died."""
    connect = lambda: sqlite3.connect(path, timeout=30, factory=connection)  # noqa: E731
    return Transactions("order-service", connect, name_servers=address, topics=[TOPIC])


def pay(transactions: Any, order: str) -> None:
    """The row and the message: both, or neither. What leaves the block as an error rolls back both."""
    with transactions.begin() as tx:
        tx.send(Message(TOPIC, json.dumps({"id": order, "amount": ORDERS[order]}), keys=[order]))
        tx.execute("UPDATE orders SET paid = amount WHERE id = ?", (order,))


def pay_and_crash(path: Path, address: str) -> None:
    pay(order_service(path, address, Crashing), CRASHES_AFTER_COMMIT)


def downstream(path: Path, address: str) -> PushConsumer:
    """One of the other services. Its inbox lets each message have its effect once, however often it comes."""
    inbox = Inbox(path.stem, lambda: sqlite3.connect(path, timeout=30))
    inbox.create_table()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE done (id TEXT, amount INTEGER)")

    @inbox.once
    def work(message: MessageView, tx: Any) -> None:
        tx.execute("INSERT INTO done VALUES (:id, :amount)", json.loads(message.body))

    return PushConsumer(path.stem, name_servers=address, listener=work).subscribe(TOPIC)


def done(path: Path) -> list[str]:
    with sqlite3.connect(path) as database:
        return [row[0] for row in database.execute("SELECT id FROM done ORDER BY id")]


def main() -> None:
    with name_servers(__doc__) as address, tempfile.TemporaryDirectory() as directory:
        path, *others = (Path(directory) / f"{name}.db" for name in ("orders", "logistics", "points", "cart"))
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE orders (id TEXT, amount INTEGER, paid INTEGER CHECK (paid <= 50))")
            database.executemany("INSERT INTO orders VALUES (?, ?, 0)", ORDERS.items())
        transactions = order_service(path, address, sqlite3.Connection)
        transactions.create_table()
        logistics, points, cart = (downstream(other, address) for other in others)
        with transactions, logistics, points, cart:
            crash = multiprocessing.get_context("spawn").Process(target=pay_and_crash, args=(path, address))
            crash.start()
            crash.join()
            print(f"order {CRASHES_AFTER_COMMIT}: paid, and its process crashed before it could tell the broker")
            for order in sorted(ORDERS.keys() - {CRASHES_AFTER_COMMIT}):
                try:
                    pay(transactions, order)
                    print(f"order {order}: paid")
                except sqlite3.IntegrityError:
                    print(f"order {order}: the card was declined, nothing is sent")
            paid, deadline = sorted(ORDERS.keys() - {CARD_DECLINED}), time.monotonic() + 30
            for other in others:
                while done(other) != paid and time.monotonic() < deadline:
                    time.sleep(0.05)
                print(f"{other.stem} has {' '.join(done(other))}")
        if any(done(other) != paid for other in others):
            raise SystemExit("the services disagree")


if __name__ == "__main__":
    main()
