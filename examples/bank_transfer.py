"""Money moves between two banks: out of one database and, by a message, into the other. Both happen, or neither.

The program of Alice's bank is killed again and again while it transfers. What it had committed arrives at Bob's bank,
once, and nothing else does.
"""

import multiprocessing
import random
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from own_server import name_servers

from gantrymq import Message, MessageView, PushConsumer
from gantrymq.sql import Inbox, Transactions

TOPIC = "transfer"
CROWNS = 1_000
KILLS = 3


def transactions_of(path: Path, address: str) -> Transactions:
    """Every process of Alice's bank has these: it transfers, and it answers for one that died."""
    connect = lambda: sqlite3.connect(path, timeout=30)  # noqa: E731
    return Transactions("alice-bank", connect, name_servers=address, topics=[TOPIC])


def transfer_all(path: Path, address: str) -> None:
    """A process of Alice's bank: 1 crown a time, until nothing is left."""
    with transactions_of(path, address) as transactions:
        while balance(path):
            with transactions.begin() as tx:
                tx.execute("UPDATE account SET balance = balance - 1")
                tx.send(Message(TOPIC, "1"))


def balance(path: Path) -> int:
    with sqlite3.connect(path, timeout=30) as database:
        return int(database.execute("SELECT balance FROM account").fetchone()[0])


def open_account(path: Path, crowns: int) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE account (balance INTEGER CHECK (balance >= 0))")
        database.execute("INSERT INTO account VALUES (?)", (crowns,))


def main() -> None:
    with name_servers(__doc__) as address, tempfile.TemporaryDirectory() as directory:
        alice, bob = Path(directory) / "alice.db", Path(directory) / "bob.db"
        open_account(alice, CROWNS)
        open_account(bob, 0)
        transactions_of(alice, address).create_table()

        inbox = Inbox("bob-bank", lambda: sqlite3.connect(bob, timeout=30))
        inbox.create_table()

        @inbox.once  # the second delivery of a message finds its row in the inbox, and changes nothing
        def credit(message: MessageView, tx: Any) -> None:
            tx.execute("UPDATE account SET balance = balance + ?", (int(message.body),))

        with PushConsumer("bob-bank", name_servers=address, listener=credit).subscribe(TOPIC):
            for kill in range(KILLS + 1):
                process = multiprocessing.get_context("spawn").Process(target=transfer_all, args=(alice, address))
                process.start()
                if kill < KILLS:
                    before = balance(alice)
                    while balance(alice) > before - CROWNS // 10:
                        time.sleep(0.01)
                    time.sleep(random.random() / 20)
                    process.kill()
                    process.join()
                    print(f"killed: Alice has {balance(alice)}, Bob has {balance(bob)}")
            deadline = time.monotonic() + 60
            while balance(bob) < CROWNS and time.monotonic() < deadline:
                time.sleep(0.1)
            process.join()
        print(f"\nAlice has {balance(alice)}, Bob has {balance(bob)}, together {balance(alice) + balance(bob)}.")
        if (balance(alice), balance(bob)) != (0, CROWNS):
            raise SystemExit("money was lost or made")


if __name__ == "__main__":
    main()
