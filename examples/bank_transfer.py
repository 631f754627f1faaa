"""Money moves between two banks: out of one database and, by a message, into the other. Both happen, or neither.

Alice's bank answers UNKNOWN at first, as if it had died right after (or before) its commit. The broker then checks the
transaction, and the content of the database decides.
"""

import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from own_server import name_servers

from gantrymq import LocalTransactionState, Message, MessageView, PushConsumer, TransactionProducer

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
TOPIC = "transfer"


class Bank:
    """One account, and the amounts of its transfers by id. The amount 0 marks a transfer that never happened."""

    def __init__(self, path: Path, balance: int) -> None:
        self.path = path
        with sqlite3.connect(self.path) as database:
            database.execute("CREATE TABLE account (balance INTEGER CHECK (balance >= 0))")
            database.execute("CREATE TABLE transfer (id TEXT PRIMARY KEY, amount INTEGER)")
            database.execute("INSERT INTO account VALUES (?)", (balance,))

    def book(self, transfer_id: str, amount: int) -> None:
        """Change the balance once for each transfer: a second booking of the same id fails with IntegrityError."""
        with sqlite3.connect(self.path) as database:
            database.execute("INSERT INTO transfer VALUES (?, ?)", (transfer_id, amount))
            database.execute("UPDATE account SET balance = balance + ?", (amount,))

    def balance(self) -> int:
        with sqlite3.connect(self.path) as database:
            return int(database.execute("SELECT balance FROM account").fetchone()[0])


class Sender:
    """The listener of Alice's bank."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.asked = 0

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        if arg == "crash":
            return UNKNOWN  # nothing was booked
        try:
            self.bank.book(message.transaction_id or "", -int(message.body))
        except sqlite3.IntegrityError:
            return ROLLBACK
        return UNKNOWN

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        # A transfer that is not booked now must never be booked later, or message and database would differ. So its id
        # is inserted here.
        with sqlite3.connect(self.bank.path) as database:
            database.execute("INSERT OR IGNORE INTO transfer VALUES (?, 0)", (message.transaction_id,))
            row = database.execute("SELECT amount FROM transfer WHERE id = ?", (message.transaction_id,)).fetchone()
        self.asked += 1
        answer = COMMIT if row[0] else ROLLBACK
        print(f"  broker asks: what became of the transfer of {message.body.decode()}?  database says: {answer.name}")
        return answer


def main() -> None:
    with name_servers(__doc__) as address, tempfile.TemporaryDirectory() as directory:
        alice, bob = Bank(Path(directory) / "alice.db", 1000), Bank(Path(directory) / "bob.db", 0)

        def credit(messages: list[MessageView]) -> None:
            for message in messages:
                try:
                    bob.book(message.transaction_id or "", int(message.body))
                    print(f"  Bob's bank receives {message.body.decode()}")
                except sqlite3.IntegrityError:
                    print("  Bob's bank has seen this transfer before and ignores it")

        listener = Sender(alice)
        receiver = PushConsumer("bob-bank", name_servers=address, listener=credit).subscribe(TOPIC)
        with receiver, TransactionProducer("alice-bank", name_servers=address, listener=listener) as sender:
            for amount, arg in ((100, None), (5000, None), (50, "crash")):
                result = sender.send_in_transaction(Message(TOPIC, str(amount)), arg)
                print(
                    f"Alice sends {amount}: {result.state.name}, {'decided' if result.decided else 'not decided yet'}"
                )
            deadline = time.monotonic() + 30
            while (listener.asked < 2 or not bob.balance()) and time.monotonic() < deadline:
                time.sleep(0.05)
        print(f"\nAlice has {alice.balance()}, Bob has {bob.balance()}, together {alice.balance() + bob.balance()}.")
        if (alice.balance(), bob.balance()) != (900, 100):
            raise SystemExit("money was lost or made")


if __name__ == "__main__":
    main()
