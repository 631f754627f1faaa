"""A paid order reaches logistics, points and cart, each exactly once. An order that was not paid reaches none of them.

Four services in one script, each with a database of its own: the order service sends in transactions, the others are
consumer groups of the same topic.
"""

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from own_server import name_servers

from gantrymq import LocalTransactionState, Message, MessageView, PushConsumer, TransactionProducer

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
TOPIC = "order-paid"
ORDERS = {"o-1": 30, "o-2": 12, "o-3": 99, "o-4": 45, "o-5": 7}
CARD_DECLINED, CRASHES_AFTER_COMMIT = "o-3", "o-4"


class Orders:
    """The order service: its listener pays the order in the order database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT)")
            database.executemany("INSERT INTO orders VALUES (?, 'open')", [(order,) for order in ORDERS])

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        state = "cancelled" if arg == CARD_DECLINED else "paid"
        with sqlite3.connect(self.path) as database:
            database.execute("UPDATE orders SET state = ? WHERE id = ? AND state = 'open'", (state, arg))
        if arg == CRASHES_AFTER_COMMIT:
            return UNKNOWN
        return COMMIT if state == "paid" else ROLLBACK

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        order = message.keys[0]
        with sqlite3.connect(self.path) as database:
            # Decisive: an order that is still open can no longer be paid after we have answered ROLLBACK.
            database.execute("UPDATE orders SET state = 'cancelled' WHERE id = ? AND state = 'open'", (order,))
            (state,) = database.execute("SELECT state FROM orders WHERE id = ?", (order,)).fetchone()
        print(f"  check-back: order {order} is {state}")
        return COMMIT if state == "paid" else ROLLBACK


class Downstream:
    """One of the other services: a table with one row for each paid order, however often its message comes."""

    def __init__(self, directory: Path, name: str, address: str, tell: Callable[[str, int], str]) -> None:
        self.path = directory / f"{name}.db"
        self.tell = tell
        self.consumer = PushConsumer(name, name_servers=address, listener=self.consume).subscribe(TOPIC)
        with sqlite3.connect(self.path) as database:
            database.execute("CREATE TABLE done (order_id TEXT PRIMARY KEY, amount INTEGER)")

    def consume(self, messages: list[MessageView]) -> None:
        for message in messages:
            order = json.loads(message.body)
            with sqlite3.connect(self.path) as database:
                row = (order["id"], order["amount"])
                if database.execute("INSERT OR IGNORE INTO done VALUES (?, ?)", row).rowcount:
                    print(f"  {self.tell(*row)}")

    def orders(self) -> list[str]:
        with sqlite3.connect(self.path) as database:
            return [row[0] for row in database.execute("SELECT order_id FROM done ORDER BY order_id")]


def main() -> None:
    with name_servers(__doc__) as address, tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        logistics = Downstream(directory, "logistics", address, lambda order, _: f"logistics: ship {order}")
        points = Downstream(directory, "points", address, lambda order, n: f"points: {n} points for {order}")
        cart = Downstream(directory, "cart", address, lambda order, _: f"cart: cleared after {order}")
        services = (logistics, points, cart)
        orders = Orders(directory / "orders.db")
        sender = TransactionProducer("order-service", name_servers=address, listener=orders)
        with logistics.consumer, points.consumer, cart.consumer, sender:
            for order, amount in ORDERS.items():
                message = Message(TOPIC, json.dumps({"id": order, "amount": amount}), keys=[order])
                result = sender.send_in_transaction(message, arg=order)
                print(f"order {order} ({amount}): {result.state.name}")
            paid, deadline = sorted(ORDERS.keys() - {CARD_DECLINED}), time.monotonic() + 30
            while any(service.orders() != paid for service in services) and time.monotonic() < deadline:
                time.sleep(0.05)
        print(f"\npaid {paid}; logistics {logistics.orders()}; points {points.orders()}; cart {cart.orders()}")
        if any(service.orders() != paid for service in services):
            raise SystemExit("the services disagree")


if __name__ == "__main__":
    main()
