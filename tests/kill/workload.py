"""The clients of the kill test: producers under load and a reader, which survive the kills of the server."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

from gantrymq.aio import Message, Producer, PullConsumer, TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import LocalTransactionState
from tests.kill.ledger import WEIGHTS, Entry, Ledger, Plan

TOPIC = "KillTest"
GROUP = "PG_kill"
WORKERS = 24
BODY_BYTES = 600
PULL_COUNT = 1_000


class Listener:
    """Local transactions that write into the ledger, and checks that read it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.checked = 0

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        entry: Entry = arg
        entry.executed = True
        return entry.first_answer()

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        self.checked += 1
        return self._ledger.entries[int(message.keys[0])].check_answer()


class Workload:
    """Sends messages until ``stop_sending``. After an error it continues with the next message."""

    def __init__(self, name_servers: str, ledger: Ledger, seed: int) -> None:
        self._ledger = ledger
        self._random = random.Random(seed)
        self.listener = Listener(ledger)
        self._plain = Producer("PG_kill_plain", name_servers=name_servers, send_timeout_ms=1500)
        self._transactions = TransactionProducer(
            GROUP, name_servers=name_servers, listener=self.listener, topics=(TOPIC,), send_timeout_ms=1500,
            heartbeat_interval_ms=1000, route_refresh_ms=1000,
        )  # fmt: skip
        self._stopping = False
        self._workers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self._plain.start()
        await self._transactions.start()
        self._workers = [asyncio.create_task(self._work()) for _ in range(WORKERS)]

    async def stop_sending(self) -> None:
        """Send no new messages, and wait for the current sends. Checks are still answered."""
        self._stopping = True
        await asyncio.gather(*self._workers)

    async def close(self) -> None:
        self._stopping = True
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        await self._transactions.close()
        await self._plain.close()

    async def _work(self) -> None:
        plans, weights = list(WEIGHTS), list(WEIGHTS.values())
        while not self._stopping:
            entry = self._ledger.new(self._random.choices(plans, weights)[0])
            message = Message(TOPIC, b"%d " % entry.number + bytes(BODY_BYTES), keys=[str(entry.number)])
            try:
                await self._send(entry, message)
            except GantryError:
                await asyncio.sleep(0.05)
            finally:
                entry.finished = True
            await asyncio.sleep(self._random.random() * 0.02)

    async def _send(self, entry: Entry, message: Message) -> None:
        if entry.plan is Plan.PLAIN:
            await self._plain.send(message)
            entry.confirmed = True
            return
        result = await self._transactions.send_in_transaction(message, entry)
        if result.decided and result.state is LocalTransactionState.COMMIT:
            entry.confirmed = True


class Reader:
    """Reads the topic from its beginning, each message once, and records the messages in the ledger."""

    def __init__(self, name_servers: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self._consumer = PullConsumer(name_servers=name_servers)
        self._next: dict[MessageQueue, int] = {}
        self.read = 0

    async def start(self) -> None:
        await self._consumer.start()

    async def close(self) -> None:
        await self._consumer.close()

    async def catch_up(self) -> None:
        """Read to the end of every queue."""
        for queue in await self._consumer.queues(TOPIC):
            end = await self._consumer.max_offset(queue)
            while self._next.get(queue, 0) < end:
                result = await self._consumer.pull(queue, self._next.get(queue, 0), PULL_COUNT)
                for message in result.messages:
                    self._ledger.entries[int(message.keys[0])].delivered += 1
                self.read += len(result.messages)
                self._next[queue] = result.next_offset

    async def wait_until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Read until ``done``; False when that takes longer than ``seconds``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            with contextlib.suppress(GantryError):  # the server may be just starting
                await self.catch_up()
            if done():
                return True
            if loop.time() > deadline:
                return False
            await asyncio.sleep(0.1)
