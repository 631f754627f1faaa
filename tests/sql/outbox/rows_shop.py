"""A service that sells while its broker is away, for the tests of all ways in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from gantrymq import Message
from gantrymq.sql import ConnectionTransaction, ConnectionTransactions, Transactions
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place

WAIT_SECONDS = 60.0
TOPIC = "orders"


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for something that happens in the background."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS:g} s: {what}"
        time.sleep(0.02)


@dataclass
class RowsShop:
    """A database with a table of orders and an outbox."""

    gantry: LocalCluster
    place: Place
    made: list[ConnectionTransactions] = field(default_factory=list)

    def service(self, away: str, **options: Any) -> ConnectionTransactions:
        """A process of the service."""
        options = {"send_timeout_ms": 1000, "row_after_ms": 200, **options}
        made = Transactions(
            "order-service", self.place.connect, name_servers="127.0.0.1:9876", when_broker_is_away=away, **options
        )
        self.made.append(made)
        return made

    def pay(self, tx: ConnectionTransaction, *numbers: int) -> None:
        mark = "?" if self.place.kind == "sqlite" else "%s"
        for number in numbers:
            tx.execute(f"INSERT INTO orders VALUES ({mark})", (number,))
            tx.send(Message(TOPIC, b"%d" % number, keys=[f"key-{number}"], properties={"colour": "blue"}))

    def paid(self) -> list[int]:
        return [row[0] for row in self.place.execute("SELECT id FROM orders ORDER BY id")]

    def bodies(self) -> list[int]:
        return sorted(int(message.body) for message in self.gantry.messages(TOPIC))

    def rows(self) -> int:
        return int(self.place.execute("SELECT COUNT(*) FROM gantrymq_outbox")[0][0])

    def outcomes(self) -> list[int]:
        return sorted(row[0] for row in self.place.execute("SELECT outcome FROM gantrymq_outcomes WHERE outcome > 0"))

    def wait_until_agreed(self) -> None:
        """Rows and messages agree exactly, and nothing is open."""
        until(lambda: self.rows() == 0 and self.bodies() == self.paid(), f"{self.bodies()} are {self.paid()}")
        until(lambda: not self.gantry.open_transactions(), "no half message is open")
        assert self.bodies() == self.paid(), "no message twice"

    async def until_agreed_on_a_loop(self) -> None:
        await asyncio.to_thread(self.wait_until_agreed)

    @contextmanager
    def broker_away(self) -> Iterator[None]:
        self.gantry.stop_broker()
        try:
            yield
        finally:
            self.gantry.start_broker()


@pytest.fixture
def shop(gantry: LocalCluster, database: Place) -> Iterator[RowsShop]:
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    gantry.create_topic(TOPIC)
    found = RowsShop(gantry, database)
    found.service("refuse").create_table()
    yield found
    for transactions in found.made:
        transactions.close()
