"""A service with a DB-API connection and a table of orders, for the tests of all drivers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gantrymq import Message
from gantrymq.sql import ConnectionTransaction, ConnectionTransactions, Transactions
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place

SOON = pytest.mark.gantry(broker={"transactionTimeOut": 1000, "transactionCheckInterval": 1000})
"""Check-backs of this broker come soon."""
NETWORKED = ["postgresql", "mariadb"]


@dataclass
class Shop:
    """A database with a table of orders, and a service that pays them."""

    gantry: LocalCluster
    place: Place
    transactions: ConnectionTransactions
    insert: str

    def paid(self) -> list[Any]:
        return [row[0] for row in self.place.execute("SELECT id FROM orders ORDER BY id")]

    def bodies(self, topic: str = "orders") -> list[bytes]:
        return sorted(message.body for message in self.gantry.messages(topic))

    def outcomes(self) -> list[int]:
        return [row[0] for row in self.place.execute("SELECT outcome FROM gantrymq_outcomes WHERE outcome > 0")]

    def pay(self, tx: ConnectionTransaction, number: int) -> None:
        tx.execute(self.insert, (number,))
        tx.send(Message("orders", b"%d" % number))

    def nothing_happened(self) -> bool:
        return not self.paid() and not self.bodies() and not self.gantry.open_transactions()

    def sibling(self, **options: Any) -> ConnectionTransactions:
        """Another process of the same service, which has sent nothing yet."""
        return service(self.place, topics=["orders", "points"], **options)


def service(place: Place, **options: Any) -> ConnectionTransactions:
    return Transactions("order-service", place.connect, name_servers="127.0.0.1:9876", **options)


@pytest.fixture
def shop(gantry: LocalCluster, database: Place) -> Iterator[Shop]:
    mark = "?" if database.kind == "sqlite" else "%s"
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    for topic in ("orders", "points"):
        gantry.create_topic(topic)
    transactions = service(database)
    transactions.create_table()
    with transactions:
        yield Shop(gantry, database, transactions, f"INSERT INTO orders VALUES ({mark})")
