"""A small service: it takes payments in its database, and a second part of it ships what was paid.

Nothing here knows of tests. The address of the name server comes from the environment, as in production.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, Self

from gantrymq import LocalTransactionState, Message, MessageView, PushConsumer, TransactionProducer

TOPIC = "orders-paid"


def name_servers() -> str:
    return os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


class Payments:
    """Pays orders: the row and the message appear together, or neither does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._database() as database:
            database.execute("CREATE TABLE IF NOT EXISTS paid (order_id TEXT PRIMARY KEY, transaction_id TEXT)")
        self.producer = TransactionProducer("payments", name_servers=name_servers(), listener=self, topics=[TOPIC])

    def pay(self, order_id: str, card: str = "good") -> str:
        """COMMIT, ROLLBACK or UNKNOWN."""
        return self.producer.send_in_transaction(Message(TOPIC, order_id.encode()), (order_id, card)).state.name

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        order_id, card = arg
        if card == "declined":
            return LocalTransactionState.ROLLBACK
        with self._database() as database:
            database.execute("INSERT INTO paid VALUES (?, ?)", (order_id, message.transaction_id))
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        with self._database() as database:
            query = "SELECT 1 FROM paid WHERE transaction_id = ?"
            found = database.execute(query, (message.transaction_id,)).fetchone()
        return LocalTransactionState.COMMIT if found else LocalTransactionState.UNKNOWN

    def _database(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)

    def __enter__(self) -> Self:
        self.producer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.producer.close()


class Shipping:
    """Ships each paid order once, however often its message comes."""

    def __init__(self) -> None:
        self.shipped: list[str] = []
        self.carrier_answers = True
        self.consumer = PushConsumer("shipping", name_servers=name_servers(), listener=self.ship).subscribe(TOPIC)

    def ship(self, messages: list[MessageView]) -> None:
        for message in messages:
            if not self.carrier_answers:
                raise ConnectionError("the carrier does not answer")
            order_id = message.body.decode()
            if order_id not in self.shipped:
                self.shipped.append(order_id)

    def __enter__(self) -> Self:
        self.consumer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()
