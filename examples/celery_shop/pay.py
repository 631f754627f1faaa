"""The order is paid and the task is started, or neither: ``python pay.py ORDER [decline]``."""

from __future__ import annotations

import os
import sys

from sqlalchemy import create_engine, text

from gantrymq import Message
from gantrymq.sql import Transactions


def main(order: str, decline: bool = False) -> None:
    engine = create_engine(os.environ.get("DATABASE_URL", "sqlite:///shop.db"))
    with engine.begin() as connection:  # in production: a migration
        for table in ("orders", "tasks_done", "parcels"):
            connection.execute(text(f"CREATE TABLE IF NOT EXISTS {table} (id VARCHAR(255) PRIMARY KEY)"))
    transactions = Transactions("shop", engine, name_servers=os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
    transactions.create_table()
    with transactions, transactions.begin() as tx:
        tx.session.execute(text("INSERT INTO orders VALUES (:id)"), {"id": order})
        tx.send(Message("orders-paid", order, keys=[order]))
        if decline:
            sys.exit("the bank declines")  # the row and the task are gone


if __name__ == "__main__":
    main(sys.argv[1], "decline" in sys.argv[2:])
