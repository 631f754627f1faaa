"""The clients of remoting: producers, a reader of all queues, and a consumer by POP."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

from gantrymq.aio import Message, Producer, PullConsumer, SimpleConsumer, TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import LocalTransactionState
from tests.kill.doors.ledger import COMMIT, ROLLBACK, TOPIC, Ledger, Sent

QUICK = {"send_timeout_ms": 1_500, "heartbeat_interval_ms": 1_000, "route_refresh_ms": 1_000}
STATES = {
    "COMMIT": LocalTransactionState.COMMIT, "ROLLBACK": LocalTransactionState.ROLLBACK,
    "UNKNOWN": LocalTransactionState.UNKNOWN,
}  # fmt: skip
GROUP = "by-remoting"
INVISIBLE_MS = 3_000
PULL_COUNT = 1_000


class Listener:
    """Local transactions whose outcome is in the ledger."""

    def __init__(self, ledger: Ledger, chance: random.Random) -> None:
        self._ledger = ledger
        self._chance = chance

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        sent: Sent = arg
        self._ledger.half(sent, confirmed=True)
        self._ledger.end_row(sent, self._chance.choice(["committed", "committed", "rolled back"]))
        if self._chance.random() < 0.3:
            return LocalTransactionState.UNKNOWN  # a check decides
        decision = COMMIT if sent.row == "committed" else ROLLBACK
        self._ledger.asks_for(sent, decision)
        return STATES[decision]

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return STATES[self._ledger.answer(message.keys[0])]


class RemotingProducers:
    """Send until they are cancelled."""

    def __init__(self, name_servers: str, ledger: Ledger, chance: random.Random) -> None:
        self._ledger = ledger
        self._chance = chance
        self._plain = Producer("by-remoting-plain", name_servers=name_servers, **QUICK)  # type: ignore[arg-type]
        # Producers of gRPC have the topic as their group, so each protocol answers the checks of the other.
        self._transactions = TransactionProducer(
            TOPIC, name_servers=name_servers, listener=Listener(ledger, chance), topics=(TOPIC,), **QUICK  # type: ignore[arg-type]
        )  # fmt: skip

    async def start(self) -> None:
        await self._plain.start()
        await self._transactions.start()

    async def close(self) -> None:
        await self._transactions.close()
        await self._plain.close()

    async def plain(self) -> None:
        sent = self._ledger.new(transaction=False)
        try:
            await self._plain.send(_message(sent))
        except GantryError:
            self._ledger.plain(sent, confirmed=False)
            return
        self._ledger.plain(sent, confirmed=True)

    async def transaction(self) -> None:
        sent = self._ledger.new(transaction=True)
        try:
            result = await self._transactions.send_in_transaction(_message(sent), sent)
        except GantryError:
            if not sent.row:  # its local transaction never ran
                self._ledger.end_row(sent, "rolled back")
            return
        if result.decided and result.state is not LocalTransactionState.UNKNOWN:
            self._ledger.ended(sent, result.state.name)


class Reader:
    """Reads every queue from its beginning, so that each record is seen with its place."""

    def __init__(self, name_servers: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self._consumer = PullConsumer(name_servers=name_servers)
        self._next: dict[MessageQueue, int] = {}

    async def start(self) -> None:
        await self._consumer.start()

    async def close(self) -> None:
        await self._consumer.close()

    async def read(self) -> None:
        """To the end of every queue; errors end it early."""
        with contextlib.suppress(GantryError):
            for queue in await self._consumer.queues(TOPIC):
                end = await self._consumer.max_offset(queue)
                while (offset := self._next.get(queue, 0)) < end:
                    result = await self._consumer.pull(queue, offset, PULL_COUNT)
                    for one in result.messages:
                        self._ledger.delivered(one.keys[0], queue.broker_name, queue.queue_id, one.queue_offset)
                    self._next[queue] = result.next_offset


class PopConsumer:
    """Our simple consumer."""

    def __init__(self, name_servers: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self._consumer = SimpleConsumer(
            GROUP, name_servers=name_servers, await_duration_ms=1_000, route_refresh_ms=1_000
        )  # fmt: skip

    async def start(self) -> None:
        self._ledger.group(GROUP)
        await self._consumer.start()
        self._consumer.subscribe(TOPIC)

    async def close(self) -> None:
        await self._consumer.close()

    async def consume(self) -> None:
        """Some messages."""
        try:
            for one in await self._consumer.receive(16, INVISIBLE_MS):
                self._ledger.done(one.keys[0], GROUP, one.queue.broker_name, one.queue.queue_id, one.queue_offset)
                with contextlib.suppress(GantryError):
                    await self._consumer.ack(one)
        except GantryError:
            await asyncio.sleep(0.1)


def _message(sent: Sent) -> Message:
    return Message(TOPIC, sent.name.encode() + bytes(300), keys=[sent.name])
