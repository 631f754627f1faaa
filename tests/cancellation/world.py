"""The surroundings of a call that ``cancellation`` tries: a cluster, the other participants, and what must hold."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from gantrymq.admin import Admin
from gantrymq.admin.transactions import Place
from gantrymq.client.connection.endpoint import Outside
from gantrymq.client.lite_pull_consumer import LitePullConsumer
from gantrymq.client.producer import Producer
from gantrymq.client.pull_consumer import PullConsumer
from gantrymq.client.push_consumer import PushConsumer
from gantrymq.client.simple_consumer import SimpleConsumer
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.simulation.world.cluster import NAME_SERVERS, Cluster
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.testing.local.node import Node

TOPIC: Final = "T"
QUEUES: Final = 2
SENT_BEFORE: Final = 24
"""Messages that are there for those who read."""
COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
RETRIED_S: Final = 15.0
"""Until a message that was given back has come again."""
Act = Callable[[Any, "World"], Coroutine[Any, Any, Any]]


async def _begin(client: Any, world: World) -> None:
    await client.start()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call, and how it is judged."""

    name: str
    make: Callable[[Outside, World], Any]
    """The client, not started."""
    act: Act
    prepare: Act = _begin
    next: Act | None = None
    """What must work after ``act`` was cancelled; default: the same."""
    may_close: bool = False
    """Cancelling it may leave a closed client: then the next call may raise Closed."""
    ends_client: bool = False
    transactional: bool = False
    reads: bool = False
    """Messages are there."""
    successor: Callable[[Outside, World], Any] | None = None
    """A consumer of the group that begins when all points were tried: then every message was got by somebody."""
    replier: bool = False

    @property
    def again(self) -> Act:
        return self.next or self.act


class World:
    """A cluster for the points of one call, with what was asked of it and what came of that."""

    def __init__(self, cluster: Cluster, *, rough: bool) -> None:
        """``rough``: the network loses and delays while a call is tried."""
        self._cluster = cluster
        self.rough = rough
        self._nodes: list[Node] = []
        self._clients: list[Any] = []
        self._numbers = 0
        self.asked: Counter[bytes] = Counter()
        """Bodies by the number of times that the program asked for them to be sent."""
        self.rows: set[bytes] = set()
        """Bodies of committed local transactions."""
        self.got: Counter[bytes] = Counter()
        """What readers were given, by body."""
        self.expected = b""
        """The message that the next poll must give."""
        self.in_hand: MessageView | None = None
        """A message that was received and not acknowledged."""
        self.question: MessageView | None = None
        self.place: Place | None = None
        """Of a transaction that is open."""
        self._doubtful: Any = None
        self.beside: asyncio.Task[None] | None = None
        self.disk = SimDisk()
        """Of those who keep their progress in a file."""

    def body(self) -> bytes:
        """A new body, asked for once."""
        self._numbers += 1
        body = b"%d" % self._numbers
        self.asked[body] += 1
        return body

    async def open(self, call: Call) -> None:
        """Make the topic, and those who have a part in the call."""
        admin = await self._start(lambda outside: Admin(NAME_SERVERS, outside=outside))
        await self._run(admin, admin.create_topic(TOPIC, QUEUES))
        if call.reads:
            producer = await self._start(lambda outside: Producer("before", name_servers=NAME_SERVERS, outside=outside))
            for _ in range(SENT_BEFORE):
                await self._run(producer, producer.send(Message(TOPIC, self.body())))
        if call.transactional:
            await self._start(lambda outside: transaction_producer(outside, self, topics=[TOPIC]))
        if call.replier:
            await self._start(self._replier)
        self._sender = await self._start(lambda outside: Producer("beside", name_servers=NAME_SERVERS, outside=outside))

    async def send_soon(self, body: bytes) -> None:
        """Have somebody else send it in a moment."""

        async def sending() -> None:
            await asyncio.sleep(0.05)
            while not await self._sent(body):
                await asyncio.sleep(0.5)

        self._nodes[self._clients.index(self._sender)].start(sending())

    async def _start(self, make: Callable[[Outside], Any]) -> Any:
        number = len(self._nodes) + 1
        process = self._cluster.process(f"world-{number}", f"10.2.0.{number}")
        node = process.node
        client = node.call(make, process.outside)
        self._nodes.append(node)
        self._clients.append(client)
        await node.start(client.start())
        return client

    async def _run(self, client: Any, work: Coroutine[Any, Any, Any]) -> Any:
        return await self._nodes[self._clients.index(client)].start(work)

    def _replier(self, outside: Outside) -> PushConsumer:
        async def listener(messages: list[MessageView]) -> None:
            for view in messages:
                if view.body != b"no question":
                    await replying.reply(view, b"answer")

        replying = Producer("replier", name_servers=NAME_SERVERS, outside=outside)
        replying._endpoint.start()
        consumer = PushConsumer("repliers", name_servers=NAME_SERVERS, listener=listener, outside=outside)
        return consumer.subscribe(TOPIC)

    async def _sent(self, body: bytes) -> bool:
        try:
            await self._sender.send(Message(TOPIC, body))
        except GantryError:
            if not self.rough:
                raise
            return False
        return True

    async def leave_open(self) -> str:
        """Somebody sends a half and does not know how it ends; its transaction id."""

        def make(outside: Outside) -> TransactionProducer:
            return TransactionProducer("undecided", name_servers=NAME_SERVERS, listener=Doubtful(self), outside=outside)

        if self._doubtful is None:
            self._doubtful = await self._start(make)
        sent = await self._run(self._doubtful, self._doubtful.send_in_transaction(Message(TOPIC, self.body())))
        transaction_id: str = sent.transaction_id
        return transaction_id

    async def ask(self) -> None:
        """Somebody sends a request; it is the ``question``."""
        body = self.body()
        work = self._sender.request(Message(TOPIC, body), 600_000)
        self._nodes[self._clients.index(self._sender)].start(work).add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )
        reader = await self._start(lambda outside: PullConsumer(name_servers=NAME_SERVERS, outside=outside))
        self.question = await self._run(reader, _find(reader, body))

    async def audit(self, call: Call) -> list[str]:
        """What is stored against what was asked for. Where answers were lost, a plain message may be stored again by a
        retry; a transaction may not."""
        if call.successor is not None and (lost := await self._never_got(call.successor)):
            return [f"message(s) {lost} were got by nobody"]
        stored = await self._stored()
        found = [
            f"message {body!r} is stored {count} times, and was sent {self.asked[body]} times"
            for body, count in stored.items()
            if count > self.asked[body] and not self.rough
        ]
        if call.transactional:
            found += [
                f"transaction {body!r} is {'committed' if body in self.rows else 'not committed'} "
                f"and delivered {stored[body]} times"
                for body in self.asked
                if stored[body] != (body in self.rows)
            ]
        return found

    async def _never_got(self, make: Callable[[Outside, World], Any]) -> list[bytes]:
        last = await self._start(lambda outside: make(outside, self))
        while isinstance(last, LitePullConsumer) and (found := await self._run(last, last.poll(10_000))):
            self.got.update(view.body for view in found)
        while isinstance(last, SimpleConsumer) and (found := await self._run(last, last.receive(32, 10_000))):
            self.got.update(view.body for view in found)
        await asyncio.sleep(RETRIED_S)
        return sorted(set(self.asked) - set(self.got))

    async def _stored(self) -> Counter[bytes]:
        reader = await self._start(lambda outside: PullConsumer(name_servers=NAME_SERVERS, outside=outside))

        async def everything() -> Counter[bytes]:
            found: Counter[bytes] = Counter()
            for queue in await reader.queues(TOPIC):
                offset, end = 0, await reader.max_offset(queue)
                while offset < end:
                    result = await reader.pull(queue, offset, 1000)
                    found.update(view.body for view in result.messages)
                    offset = result.next_offset
            return found

        stored: Counter[bytes] = await self._run(reader, everything())
        return stored

    async def close(self) -> None:
        for node, client in zip(self._nodes, self._clients, strict=True):
            await node.start(client.close())
            self._cluster.kill(node)


async def _find(reader: PullConsumer, body: bytes) -> MessageView:
    while True:
        for queue in await reader.queues(TOPIC):
            for view in (await reader.pull(queue, max(0, await reader.max_offset(queue) - 1))).messages:
                if view.body == body:
                    return view
        await asyncio.sleep(0.01)


def left_over(client: Any) -> list[str]:
    """What a client that does nothing must not have."""
    found = []
    if (delivery := getattr(client, "_delivery", None)) is not None and delivery.in_flight:
        found.append(f"in_flight is {delivery.in_flight}")
    if (replies := getattr(client, "_replies", None)) is not None and replies._waiting:
        found.append(f"{len(replies._waiting)} request(s) that wait for a reply")
    if (memory := getattr(client, "_memory", None)) is not None:
        running = sum(transaction.running for transaction in memory._transactions.values())
        found += [f"{running} transaction(s) that count as running"] if running else []
    return found


class Bank:
    """Commits each transaction by its body; asked about one it finds out what became of it."""

    decisive = False

    def __init__(self, world: World) -> None:
        self.world = world

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        await asyncio.sleep(0.001)
        self.world.rows.add(message.body)
        await asyncio.sleep(0.001)
        return COMMIT

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return COMMIT if message.body in self.world.rows else ROLLBACK


class Doubtful(Bank):
    """Does not know."""

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


class PlainBank(Bank):
    """The same without ``async``: in a thread, or inline."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:  # type: ignore[override]
        self.world.rows.add(message.body)
        return COMMIT


def transaction_producer(
    outside: Outside, world: World, bank: type[Bank] = Bank, **settings: Any
) -> TransactionProducer:
    return TransactionProducer("bank", name_servers=NAME_SERVERS, listener=bank(world), outside=outside, **settings)
