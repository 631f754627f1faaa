"""What the broker says of its transactions: how many a check-back decided, and how many are open.

The broker stores with each decision why it was made, so the number is right after a kill of the broker, too.
"""

from __future__ import annotations

import asyncio
import threading

from gantrymq import MessageQueue, PullConsumer
from gantrymq.aio import Admin
from gantrymq.errors import GantryError
from gantrymq.message.system_topics import OP
from gantrymq.transactions.records.half import parse_op
from gantrymq.transactions.table.decisions import Cause

LOOK_SECONDS = 0.5
PULL_MAX_MESSAGES = 1_000


class CheckBacks:
    """Counts the transactions that the answer to a check-back decided, in a thread, while the broker comes and goes."""

    def __init__(self, name_servers: str, broker_name: str) -> None:
        self._name_servers = name_servers
        self._queue = MessageQueue(OP, broker_name, 0)
        self._offset = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="check-backs", daemon=True)
        self.count = 0

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self.update()
            except GantryError:
                continue  # the broker is down; the next look reads on where this one ended

    def update(self) -> int:
        """Read the decisions since the last call; returns the count. Raises GantryError while the broker is down."""
        with self._lock, PullConsumer(None, name_servers=self._name_servers) as consumer:
            end = consumer.max_offset(self._queue)
            while self._offset < end:
                pulled = consumer.pull(self._queue, self._offset, PULL_MAX_MESSAGES)
                for message in pulled.messages:
                    if Cause.of_op(message.flag) is Cause.CHECK_ANSWER:
                        self.count += len(parse_op(message.body))
                self._offset = pulled.next_offset
            return self.count


def open_transactions(name_servers: str) -> list[str]:
    """The ids of the local transactions whose half messages are not decided, one for each half message."""

    async def ask() -> list[str]:
        async with Admin(name_servers) as admin:
            places = await admin.transactions.undecided()
            return [place.transaction.half.local_transaction.partition(" ")[0] for place in places]

    return asyncio.run(ask())
