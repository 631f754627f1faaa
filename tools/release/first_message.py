"""Run by the Python of a new environment: a row in SQLite and its message, which a consumer gets.

Arguments: the address of the name server, and the version that must be installed. Needs only what the package asks for.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from pathlib import Path

import gantrymq
from gantrymq import Message, PushConsumer
from gantrymq.sql import Transactions

PATIENCE_S = 120.0
TOPIC = "orders-paid"


def main(name_servers: str, version: str) -> None:
    here = Path(gantrymq.__file__)
    if gantrymq.__version__ != version or not here.is_relative_to(sys.prefix):
        sys.exit(f"gantrymq {gantrymq.__version__} was imported from {here}, and not {version} from {sys.prefix}")
    received: list[bytes] = []
    arrived = threading.Event()

    def ship(messages):  # type: ignore[no-untyped-def]  # as users write it
        received.extend(message.body for message in messages)
        arrived.set()

    transactions = Transactions("order-service", lambda: sqlite3.connect("orders.db"), name_servers=name_servers)
    transactions.create_table()
    with transactions, transactions.begin() as tx:
        tx.send(Message(TOPIC, "o-1"))
        tx.execute("CREATE TABLE paid (order_id)")
        tx.execute("INSERT INTO paid VALUES ('o-1')")
    with PushConsumer("shipping", name_servers=name_servers, listener=ship).subscribe(TOPIC):
        if not arrived.wait(PATIENCE_S):
            sys.exit(f"the message did not arrive within {PATIENCE_S:.0f} s")
    with sqlite3.connect("orders.db") as database:
        rows = database.execute("SELECT order_id FROM paid").fetchall()
    if rows != [("o-1",)] or received != [b"o-1"]:
        sys.exit(f"the row is {rows}, and the messages are {received}: there must be one of each, o-1")
    print("the row o-1 is there, and its message arrived once")


if __name__ == "__main__":
    main(*sys.argv[1:])
