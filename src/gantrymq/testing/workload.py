"""Services with a database each that pay orders and tell others, and a consumer that listens."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gantrymq.client.endpoint import Doors
from gantrymq.client.producer import Producer
from gantrymq.client.push_consumer import PushConsumer
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.bodies.heartbeat import ConsumeFromWhere
from gantrymq.testing.checker import COMMITTED, ROLLED_BACK
from gantrymq.testing.history import History
from gantrymq.testing.node import Node

TOPIC = "Orders"
PLAIN_TOPIC = "Notices"
GROUP = "order-service"
READERS = "readers"
KINDS = ("commit", "rollback", "unknown-commit", "unknown-rollback", "slow", "die", "plain")
WEIGHTS = (6, 3, 2, 1, 2, 2, 3)

STATES = {COMMITTED: LocalTransactionState.COMMIT, ROLLED_BACK: LocalTransactionState.ROLLBACK}


@dataclass(slots=True)
class Database:
    """Rows by transaction; a row is there whole or not at all, and outlives every process."""

    history: History
    rows: dict[str, str] = field(default_factory=dict)

    def end(self, name: str, state: str) -> bool:
        """End a local transaction, unless it has ended; whether this call did it."""
        if name in self.rows:
            return False
        self.rows[name] = state
        self.history.add("row", tx=name, state=state)
        return True


@dataclass(slots=True)
class Chances:
    """How checkers and local transactions behave."""

    unknown: float = 0.2
    lie: float = 0.0


class Shop:
    """One process of the order service: a transaction listener with a database."""

    def __init__(
        self,
        node: Node,
        doors: Doors,
        name_servers: str,
        database: Database,
        rng: random.Random,
        chances: Chances,
        die: Callable[[Node], None],
    ) -> None:
        """``die``: ends this process, when an order says so."""
        self.node = node
        self._die = die
        self._database = database
        self._history = database.history
        self._rng = rng
        self._chances = chances
        self.checked = 0
        self.producer = TransactionProducer(
            GROUP, name_servers=name_servers, listener=self, doors=doors, topics=[TOPIC], send_timeout_ms=3000,
            inline_listener=True,
        )  # fmt: skip
        self.plain = Producer(f"{GROUP}-plain", name_servers=name_servers, doors=doors, send_timeout_ms=3000)

    async def start(self) -> None:
        await self.producer.start()
        await self.plain.start()

    async def work(self, first: int, count: int, pause_s: float) -> None:
        """Orders one after another, some at the same time."""
        running = []
        for number in range(first, first + count):
            kind = self._rng.choices(KINDS, WEIGHTS)[0]
            running.append(asyncio.ensure_future(self._order(f"{kind}-{number}", kind)))
            await asyncio.sleep(self._rng.expovariate(1 / pause_s))
        await asyncio.gather(*running)

    async def _order(self, name: str, kind: str) -> None:
        if kind == "plain":
            await self._notice(name)
            return
        try:
            result = await self.producer.send_in_transaction(Message(TOPIC, name.encode(), keys=[name]), kind)
        except GantryError:
            # Whether the half is stored is not known, and the local transaction may have run or not.
            return
        self._history.add("end", tx=name, decision=result.state.name, confirmed=result.decided)

    async def _notice(self, name: str) -> None:
        self._history.add("plain", tx=name, confirmed=False)
        with contextlib.suppress(GantryError):
            await self.plain.send(Message(PLAIN_TOPIC, name.encode(), keys=[name]))
            self._history.add("plain", tx=name, confirmed=True)

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        name = message.body.decode()
        self._history.add("half", tx=name, confirmed=True)
        if arg == "slow":
            await asyncio.sleep(self._rng.uniform(1, 12))
        wanted = ROLLED_BACK if "rollback" in arg else COMMITTED
        if not self._database.end(name, wanted):
            wanted = self._database.rows[name]
        if arg == "die":
            self._history.add("fault", what=f"{self.node.name} dies between row and end of {name}")
            self._die(self.node)
            await asyncio.sleep(0)
        if arg.startswith("unknown"):
            return LocalTransactionState.UNKNOWN
        # From here on the decision may reach the broker, whatever becomes of its answer.
        self._history.add("end", tx=name, decision=STATES[wanted].name, confirmed=False)
        return STATES[wanted]

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        """Decisive: what has no row gets a rolled-back mark, so that a late commit must fail."""
        name = message.body.decode()
        self.checked += 1
        answer = LocalTransactionState.UNKNOWN
        if self._rng.random() >= self._chances.unknown:
            self._database.end(name, ROLLED_BACK)
            answer = STATES[self._database.rows[name]]
        self._history.add("check", tx=name, answer=answer.name)
        return answer


class Reader:
    """A consumer of both topics."""

    def __init__(self, doors: Doors, name_servers: str, history: History) -> None:
        self._history = history
        self.consumer = PushConsumer(
            READERS, name_servers=name_servers, doors=doors, listener=self._got,
            from_where=ConsumeFromWhere.FIRST_OFFSET, pull_suspend_ms=2000, pull_timeout_ms=5000,
            rebalance_interval_ms=3000,
        )  # fmt: skip

    async def start(self) -> None:
        self.consumer.subscribe(TOPIC)
        self.consumer.subscribe(PLAIN_TOPIC)
        await self.consumer.start()

    async def _got(self, messages: list[MessageView]) -> None:
        for message in messages:
            self._history.add(
                "delivered", tx=message.body.decode(), broker=message.queue.broker_name, topic=message.topic,
                queue=message.queue.queue_id, offset=message.queue_offset,
            )  # fmt: skip
