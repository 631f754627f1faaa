"""Services with a database each that pay orders and send messages about them, and a consumer."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gantrymq.client.producer import Producer
from gantrymq.client.push_consumer import PushConsumer
from gantrymq.client.results import SendStatus, TransactionSendResult
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message import properties
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.simulation.ends import OneWayProducer, end_of_check, end_of_result, send_end
from gantrymq.simulation.judging.checker import COMMITTED, ROLLED_BACK
from gantrymq.simulation.judging.history import History
from gantrymq.testing.local.node import Node, Process

TOPIC = "Orders"
PLAIN_TOPIC = "Notices"
GROUP = "order-service"
READERS = "readers"
QUEUES = 2
IMMUNITY_MS = 4000
"""``transactionTimeOut`` of the brokers: nobody may be asked about a transaction earlier."""
KINDS = ("commit", "rollback", "unknown-commit", "unknown-rollback", "slow", "die", "twice", "plain")
WEIGHTS = (6, 3, 2, 1, 2, 2, 2, 3)

UNKNOWN = LocalTransactionState.UNKNOWN
STATES = {COMMITTED: LocalTransactionState.COMMIT, ROLLED_BACK: LocalTransactionState.ROLLBACK}
OPPOSITE = {
    LocalTransactionState.COMMIT: LocalTransactionState.ROLLBACK,
    LocalTransactionState.ROLLBACK: LocalTransactionState.COMMIT,
}


@dataclass(slots=True)
class Database:
    """Rows by transaction; a row is there whole or not at all, and outlives every process."""

    history: History
    rows: dict[str, str] = field(default_factory=dict)
    lied: set[str] = field(default_factory=set)

    def end(self, name: str, state: str) -> bool:
        """End a local transaction, unless it has ended; whether this call did it."""
        if name in self.rows:
            return False
        self.rows[name] = state
        self.history.add("row", tx=name, state=state)
        return True

    def may_lie(self, name: str) -> bool:
        """Whether nobody lied about it yet; from now on somebody has."""
        if name in self.lied:
            return False
        self.lied.add(name)
        return True


@dataclass(slots=True)
class Chances:
    """How checkers behave: how likely it is that one does that."""

    unknown: float = 0.2
    lie: float = 0.0
    """Says the opposite of the row, once for a transaction."""
    rival: float = 0.0
    """Has a sibling answer, too, over a connection of its own; with what the row says."""


class Shop:
    """One process of the order service: a transaction listener with a database."""

    def __init__(
        self,
        process: Process,
        database: Database,
        rng: random.Random,
        chances: Chances,
        die: Callable[[Node], None],
        injected: Counter[str],
        *,
        siblings: Sequence[Shop] = (),
        one_way: bool = False,
        decisive: bool = False,
    ) -> None:
        """``die``: ends this process, when an order says so. ``siblings``: all processes of the service.

        ``one_way``: end transactions as Apache's clients do. ``decisive``: say that the checker is.
        """
        self.node = process.node
        self.address = process.address
        self._die = die
        self._database = database
        self._history = database.history
        self._rng = rng
        self._chances = chances
        self._injected = injected
        self._siblings = siblings
        self._one_way = one_way
        self.decisive = decisive
        name_servers, outside = process.name_servers, process.outside
        self.producer = (OneWayProducer if one_way else TransactionProducer)(
            GROUP, name_servers=name_servers, listener=self, outside=outside, topics=[TOPIC], send_timeout_ms=3000,
            inline_listener=True, default_topic_queue_nums=QUEUES,
        )  # fmt: skip
        self.plain = Producer(
            f"{GROUP}-plain", name_servers=name_servers, outside=outside, send_timeout_ms=3000,
            default_topic_queue_nums=QUEUES,
        )  # fmt: skip

    async def start(self) -> None:
        await self.producer.start()
        await self.plain.start()

    async def order(self, number: int) -> None:
        """One order, from the click to the broker's last answer."""
        kind = self._rng.choices(KINDS, WEIGHTS)[0]
        await self._order(f"{kind}-{number}", kind)

    async def _order(self, name: str, kind: str) -> None:
        if kind == "plain":
            await self._notice(name)
            return
        self._history.add("begin", tx=name, immunity_ms=IMMUNITY_MS, sender=self.node.name, decisive=self.decisive)
        try:
            result = await self.producer.send_in_transaction(Message(TOPIC, name.encode(), keys=[name]), kind)
        except GantryError:
            # Whether the half is stored is not known, and the local transaction may have run or not.
            return
        self._history.add(
            "end", tx=name, decision=result.state.name, confirmed=result.decided, half=result.offset_message_id
        )
        self._injected["end sent one-way"] += self._one_way
        if kind == "twice":
            await self._end_again(name, result)

    async def _end_again(self, name: str, result: TransactionSendResult) -> None:
        """Over a second connection, as a client does that did not get the answer to the first."""
        await asyncio.sleep(self._rng.uniform(0, 2))
        self._injected["end sent again over a second connection"] += 1
        confirmed = await send_end(self.plain, end_of_result(GROUP, TOPIC, result, result.state))
        self._history.add(
            "end", tx=name, decision=result.state.name, confirmed=confirmed, half=result.offset_message_id
        )

    async def _notice(self, name: str) -> None:
        self._history.add("plain", tx=name, confirmed=False)
        with contextlib.suppress(GantryError):
            sent = await self.plain.send(Message(PLAIN_TOPIC, name.encode(), keys=[name]))
            if sent.status is SendStatus.SEND_OK:
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
        self._injected["check ahead of time"] += properties.EARLY_CHECK in message.properties
        if self._rng.random() < self._chances.unknown:
            self._history.add("check", tx=name, answer=UNKNOWN.name, half=message.offset_message_id)
            return UNKNOWN
        self._database.end(name, ROLLED_BACK)
        truth = STATES[self._database.rows[name]]
        lie = self._rng.random() < self._chances.lie and self._database.may_lie(name)
        answer = OPPOSITE[truth] if lie else truth
        self._injected["lying answer"] += lie
        self._history.add("check", tx=name, answer=answer.name, lie=lie, half=message.offset_message_id)
        if self._rng.random() < self._chances.rival:
            await self._rival(name, message, answer)
        return answer

    async def _rival(self, name: str, half: MessageView, own: LocalTransactionState) -> None:
        """A sibling answers at the same time, now and then the opposite; both learn whether they were believed."""
        others = [shop for shop in self._siblings if shop is not self and shop.node.alive]
        if not others:
            return
        lie = self._rng.random() < 0.3 and self._database.may_lie(name)
        answer = OPPOSITE[own] if lie else own
        self._injected["check answered by two producers"] += 1
        self._injected["lying answer"] += lie
        self._history.add("check", tx=name, answer=answer.name, lie=lie, half=half.offset_message_id)
        self._history.add("end", tx=name, decision=answer.name, confirmed=False)
        other = self._rng.choice(others)
        other.node.start(other.answer(name, half, answer))
        self.node.start(self.answer(name, half, own))

    async def answer(self, name: str, half: MessageView, answer: LocalTransactionState) -> None:
        """Answer a check that another process was asked."""
        header = end_of_check(GROUP, half, half.queue.broker_name, answer)
        confirmed = await send_end(self.producer, header)
        self._history.add("end", tx=name, decision=answer.name, confirmed=confirmed, half=half.offset_message_id)


class Reader:
    """A consumer of both topics."""

    def __init__(self, process: Process, history: History) -> None:
        self._history = history
        self.consumer = PushConsumer(
            READERS, name_servers=process.name_servers, outside=process.outside, listener=self._got,
            from_where=ConsumeFromWhere.FIRST_OFFSET, pull_suspend_ms=5000, pull_timeout_ms=8000,
            rebalance_interval_ms=6000,
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
