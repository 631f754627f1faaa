"""A real broker is killed while messages are sent to lite topics and consumed: none is lost, each lite topic keeps its
order, and the consumer goes on.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest

from gantrymq.demo.ports import free_port

pytest.importorskip("grpc")

import grpc.aio

from gantrymq import aio
from gantrymq.errors import GantryError
from gantrymq.grpc.definition_pb2 import LiteSubscriptionAction
from gantrymq.message.message import Message
from gantrymq.protocol.files.groups import LITE_BIND_TOPIC, Group
from tests.kill.server import Server
from tests.support.grpc_client import GrpcClient

ROUNDS, COUNT, LONGEST_S, LITE_TOPICS = 4, 80, 120.0, ("a", "b", "c")
TOPIC, GROUP = "Baskets", "CG_lite"
PAUSE_S = 0.05


async def send(server: Server, lite_topic: str) -> None:
    """One after the other; a message that may not be stored is sent again."""
    async with aio.Producer("PG", name_servers=server.name_servers, retries=0, send_timeout_ms=2_000) as producer:
        for number in range(COUNT):
            while True:
                try:
                    await producer.send(Message(TOPIC, f"{lite_topic}{number}", lite_topic=lite_topic))
                    break
                except GantryError:
                    await asyncio.sleep(PAUSE_S)


class Consumer:
    """A client that repeats its subscriptions, receives and acknowledges."""

    def __init__(self, client: GrpcClient) -> None:
        self._client = client
        self.got: dict[str, list[int]] = {name: [] for name in LITE_TOPICS}
        """Of each lite topic the numbers of its messages, as each came first."""

    async def subscribe(self) -> None:
        while True:
            try:
                await self._client.sync_lite(LiteSubscriptionAction.COMPLETE_ADD, TOPIC, *LITE_TOPICS, group=GROUP)
                await asyncio.sleep(1.0)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(PAUSE_S)

    async def consume(self) -> None:
        while True:
            try:
                _, found = await self._client.receive(TOPIC, GROUP, seconds=0.5, invisible=2, count=4)
                for one in found:
                    body = one.body.decode()
                    if int(body[1:]) not in self.got[body[0]]:
                        self.got[body[0]].append(int(body[1:]))
                    await self._client.ack(TOPIC, one, group=GROUP)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(PAUSE_S)

    @property
    def has_all(self) -> bool:
        return all(len(numbers) == COUNT for numbers in self.got.values())


async def play(server: Server, port: int, chance: random.Random) -> dict[str, list[int]]:
    async with aio.Admin(server.name_servers, call_timeout_ms=10_000) as admin:
        await admin.create_topic(TOPIC, 2, message_type="LITE")
        await admin.groups.put(GROUP, lambda now: Group(group_name=GROUP, attributes={LITE_BIND_TOPIC: TOPIC}))
    settings: list[tuple[str, Any]] = [("grpc.max_reconnect_backoff_ms", 200), ("grpc.min_reconnect_backoff_ms", 100)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=settings) as channel:
        consumer = Consumer(GrpcClient(channel))
        work = [consumer.subscribe(), consumer.consume(), *(send(server, name) for name in LITE_TOPICS)]
        tasks = [asyncio.create_task(one) for one in work]
        for _ in range(ROUNDS):
            await asyncio.sleep(chance.uniform(0.3, 1.0))
            server.kill()
            await asyncio.sleep(chance.uniform(0.0, 0.3))
            server.start()  # not in another thread: the process ends with the thread that has started it
        over = time.monotonic() + LONGEST_S
        while not consumer.has_all and time.monotonic() < over:
            await asyncio.sleep(PAUSE_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return consumer.got


@pytest.mark.kill
def test_no_message_of_a_lite_topic_is_lost_or_overtaken(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    port = free_port()
    server = Server(tmp_path, "SYNC_FLUSH", f"grpcPort={port}\n")
    server.start()
    try:
        got = asyncio.run(play(server, port, random.Random(seed)))
    finally:
        server.kill()
    assert got == {name: list(range(COUNT)) for name in LITE_TOPICS}, f"seed {seed}"
