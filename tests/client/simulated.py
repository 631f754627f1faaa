"""A name server and a broker in virtual time, and clients of each kind that must do their work against them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from gantrymq import aio
from gantrymq.aio import ConsumeFromWhere, LocalTransactionState, Message, MessageView
from gantrymq.client.connection.endpoint import Outside
from gantrymq.message.queues import MessageQueue
from gantrymq.message.sizes import MAX_BODY_BYTES
from gantrymq.simulation.world.cluster import NAME_SERVERS, Cluster
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.simulation.world.loop import VirtualLoop

TOPIC: Final = "T"
GROUP: Final = "G"
PATIENCE_S: Final = 600.0
"""Virtual seconds that a client may take for its work."""
LOOK_AGAIN_S: Final = 0.3
LOCK_ENDS_S: Final = 70.0
"""When a lock that was not renewed has ended, on both sides."""
SELDOM_MS: Final = 1_000
"""From here on waiting for that is cheap."""

Work = Callable[["World", Outside, dict[str, Any]], Awaitable[None]]


class _AtOnce(ThreadPoolExecutor):
    """Threads have no place in virtual time: what would run in one runs at once."""

    def submit(self, call: Any, /, *args: Any, **keywords: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*args, **keywords))
        except BaseException as error:
            done.set_exception(error)
        return done


class World:
    """One cluster for many clients, one after the other."""

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster.build(seed, 1)
        self.bodies = (f"body {number} ".encode() * 700 for number in itertools.count())
        self.errors: list[str] = []
        loop = self.loop
        loop.set_default_executor(_AtOnce())
        loop.set_exception_handler(lambda _loop, context: self.errors.append(str(context)))
        self._machines = itertools.cycle(f"10.0.{net}.{host}" for net in range(1, 200) for host in range(1, 200))
        loop.run_until_complete(self._start())

    @property
    def loop(self) -> VirtualLoop:
        return self.cluster.loop

    async def _start(self) -> None:
        await self.cluster.start_name_server()
        await self.cluster.start_broker(self.cluster.brokers[0])
        process = self.cluster.process("first", "10.1.0.1")
        await process.node.start(self._make_topic(process.outside))

    async def _make_topic(self, outside: Outside) -> None:
        async with aio.Admin(NAME_SERVERS, outside=outside) as admin:
            await admin.create_topic(TOPIC, 2)

    def play(self, work: Work, arguments: dict[str, Any]) -> None:
        """Run a client in a process of its own, to its end; raises what it raises, and for what broke behind it."""
        process = self.cluster.process("client", next(self._machines))
        node = process.node
        outside = Outside(process.outside.network, process.clock, process.outside.rng, SimDisk())

        async def limited() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await work(self, outside, arguments)

        try:
            self.loop.run_until_complete(node.start(limited()))
        finally:
            left = [task for task in node.tasks if not task.done()]
            node.kill()
            self.cluster.network.lose_process(node)
            self.loop.run_until_complete(asyncio.sleep(0))
        assert not left, f"tasks go on after close: {left}"
        assert not self.errors, self.errors

    def other(self) -> Outside:
        """For somebody else, on a machine of its own."""
        return self.cluster.process("other", next(self._machines)).outside

    def close(self) -> None:
        for host in self.cluster.brokers:
            self.cluster.stop(host)
        self.loop.close()


async def _written(world: World, queue: MessageQueue, body: bytes) -> None:
    """Wait until ``body`` can be read from a queue."""
    async with aio.PullConsumer(name_servers=NAME_SERVERS, outside=world.other()) as reader:
        while True:
            end = await reader.max_offset(queue)
            found = await reader.pull(queue, max(end - 1, 0), 32)
            if any(view.body == body for view in found.messages):
                return
            await asyncio.sleep(LOOK_AGAIN_S)


async def _sent(world: World, topic: str = TOPIC) -> bytes:
    """A message of somebody else."""
    body = next(world.bodies)
    async with aio.Producer("PG", name_servers=NAME_SERVERS, outside=world.other()) as producer:
        await producer.send(Message(topic, body))
    return body


def _wire(arguments: dict[str, Any]) -> str:
    """The topic's name on the wire."""
    namespace = arguments.get("namespace")
    return f"{namespace}%{TOPIC}" if namespace else TOPIC


def _full(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name_servers": NAME_SERVERS, **arguments}


async def producer(world: World, outside: Outside, arguments: dict[str, Any]) -> None:
    body = next(world.bodies)[: arguments.get("max_message_bytes", MAX_BODY_BYTES)]
    async with aio.Producer(GROUP, outside=outside, **_full(arguments)) as client:
        result = await client.send(Message(TOPIC, body))
        await client.send_batches([Message(TOPIC, body), Message(TOPIC, body)] if len(body) > 100 else [])
        await client.send_oneway(Message(TOPIC, body))
        await _written(world, result.queue, body)


class Commits:
    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT if arg is None else LocalTransactionState.UNKNOWN

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


async def transaction_producer(world: World, outside: Outside, arguments: dict[str, Any]) -> None:
    size = arguments.get("max_message_bytes", MAX_BODY_BYTES)
    async with aio.TransactionProducer(GROUP, outside=outside, listener=Commits(), **_full(arguments)) as client:
        body = next(world.bodies)[:size]
        result = await client.send_in_transaction(Message(TOPIC, body))
        assert result.decided, result.decision_error
        await _written(world, result.queue, body)
        body = next(world.bodies)[:size]
        result = await client.send_in_transaction(Message(TOPIC, body), "undecided")
        await _written(world, result.queue, body)


async def push_consumer(world: World, outside: Outside, arguments: dict[str, Any]) -> None:
    got: set[bytes] = set()

    async def listener(messages: list[MessageView]) -> None:
        got.update(view.body for view in messages)

    where = ConsumeFromWhere.TIMESTAMP if "timestamp_ms" in arguments else ConsumeFromWhere.LAST_OFFSET
    client = aio.PushConsumer(GROUP, outside=outside, listener=listener, from_where=where, **_full(arguments))
    async with client.subscribe(TOPIC):
        for pause_s in (0.0, 0.0, LOCK_ENDS_S if arguments.get("lock_interval_ms", 0) >= SELDOM_MS else 0.0):
            await asyncio.sleep(pause_s)
            body = await _sent(world, _wire(arguments))
            while body not in got:
                await asyncio.sleep(0.01)


async def lite_pull_consumer(world: World, outside: Outside, arguments: dict[str, Any]) -> None:
    where = ConsumeFromWhere.TIMESTAMP if "timestamp_ms" in arguments else ConsumeFromWhere.LAST_OFFSET
    client = aio.LitePullConsumer(GROUP, outside=outside, from_where=where, **_full(arguments))
    async with client.subscribe(TOPIC):
        for _ in range(3):
            body, found = await _sent(world, _wire(arguments)), set[bytes]()
            while body not in found:
                found.update(view.body for view in await client.poll())
                await asyncio.sleep(0.01)
        await client.commit()


async def simple_consumer(world: World, outside: Outside, arguments: dict[str, Any]) -> None:
    client = aio.SimpleConsumer(GROUP, outside=outside, **_full(arguments))
    async with client.subscribe(TOPIC):
        for _ in range(3):
            body, found = await _sent(world, _wire(arguments)), set[bytes]()
            while body not in found:
                for view in await client.receive(32, 60_000):
                    found.add(view.body)
                    await client.ack(view)
                await asyncio.sleep(0.01)


async def pull_consumer(world: World, outside: Outside, arguments: dict[str, Any]) -> None:
    body = await _sent(world, _wire(arguments))
    async with aio.PullConsumer(GROUP, outside=outside, **_full(arguments)) as client:
        found: set[bytes] = set()
        for queue in await client.queues(TOPIC):
            end = await client.max_offset(queue)
            found.update(view.body for view in (await client.pull(queue, max(end - 1, 0))).messages)
            await client.commit(queue, end)
            assert await client.committed(queue) == end
        assert body in found


async def admin(world: World, outside: Outside, arguments: dict[str, Any]) -> None:
    full = _full(arguments)
    async with aio.Admin(full.pop("name_servers"), outside=outside, **full) as client:
        assert TOPIC in await client.topics()


async def travels(world: World, outside: Outside, arguments: dict[str, Any]) -> None:
    """A message that can be sent arrives as it is; one for later is taken."""
    message: Message = arguments["message"]
    given = dict(message.properties)
    async with aio.Producer(GROUP, outside=outside, name_servers=NAME_SERVERS) as client:
        result = await client.send(message)
    if not arguments["now"]:
        return
    async with aio.PullConsumer(name_servers=NAME_SERVERS, outside=world.other()) as reader:
        (view,) = (await reader.pull(result.queue, result.queue_offset, 1)).messages
    assert (view.topic, view.body, view.flag) == (message.topic, message.body, message.flag)
    assert given.items() <= view.properties.items()


def fresh_world(seed: int) -> Iterator[World]:
    """For a fixture."""
    world = World(seed)
    try:
        yield world
    finally:
        world.close()
