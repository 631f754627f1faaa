"""A real broker, or the proxy before it, is killed while clients of gRPC give messages up: each of them is one dead
letter, however often the client has to ask until it gets an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gantrymq.demo.ports import free_port

pytest.importorskip("grpc")

import grpc.aio

import gantrymq
from gantrymq import aio
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import Code, Message
from gantrymq.protocol.files.groups import Group
from tests.kill.server import Server
from tests.support.gantry_process import GantryProcess
from tests.support.grpc_client import GrpcClient, message, resource

ROUNDS, COUNT, LONGEST_S = 5, 400, 90.0
INVISIBLE_S = 15
"""What a kill keeps from its client comes again behind that, well before the test gives up."""
TOPIC, GROUP = "Given", "CG_gives_up"
QUEUES = 4


class GivesUp:
    """One consumer that cannot consume anything."""

    def __init__(self, client: GrpcClient, *, orderly: bool) -> None:
        self.client = client
        self.queues = tuple(range(QUEUES)) if orderly else (-1,)
        self.given_up: set[bytes] = set()
        """The broker said that they are dead letters."""

    async def send(self, body: bytes) -> None:
        """A proxy hears of a new topic with the next registration of the broker."""
        status = Code.TOPIC_NOT_FOUND
        while status == Code.TOPIC_NOT_FOUND:
            answer = await self.client.send(message(TOPIC, body, message_group=f"g{body[-1] % QUEUES}"))
            status = answer.status.code
        assert status == Code.OK

    async def go_on(self, queue: int) -> None:
        while True:
            for one in await self._received(queue):
                await self._forward(one)

    async def _received(self, queue: int) -> list[Message]:
        try:
            _, found = await self.client.receive(TOPIC, GROUP, queue=queue, seconds=0.5, invisible=INVISIBLE_S, count=4)
        except grpc.aio.AioRpcError:
            await asyncio.sleep(0.05)
            return []
        return found

    async def _forward(self, one: Message) -> None:
        """Until there is an answer, with the same handle, as clients do it."""
        request = service.ForwardMessageToDeadLetterQueueRequest(
            group=resource(GROUP), topic=resource(TOPIC), receipt_handle=one.system_properties.receipt_handle,
            message_id=one.system_properties.message_id, delivery_attempt=17, max_delivery_attempts=17,
        )  # fmt: skip
        while True:
            try:
                answer = await self.client.call(
                    "ForwardMessageToDeadLetterQueue", request, service.ForwardMessageToDeadLetterQueueResponse
                )
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.05)
                continue
            if answer.status.code == Code.OK:
                self.given_up.add(one.body)
            if answer.status.code in (Code.OK, Code.INVALID_RECEIPT_HANDLE):  # the other one: it comes again
                return
            await asyncio.sleep(0.05)


def letters(server: Server) -> Counter[bytes]:
    """Every message of the dead letters."""
    found: Counter[bytes] = Counter()
    with gantrymq.PullConsumer(name_servers=server.name_servers, call_timeout_ms=10_000) as reader:
        for queue in reader.queues(f"%DLQ%{GROUP}"):
            offset, end = 0, reader.max_offset(queue)
            while offset < end:
                pulled = reader.pull(queue, offset)
                found.update(view.body for view in pulled.messages)
                offset = pulled.next_offset
    return found


async def make(server: Server, *, orderly: bool) -> None:
    async with aio.Admin(server.name_servers, call_timeout_ms=10_000) as admin:
        await admin.create_topic(TOPIC, QUEUES)
        await admin.groups.put(GROUP, lambda now: Group(group_name=GROUP, consume_message_orderly=orderly))


async def play(
    server: Server, port: int, chance: random.Random, *, orderly: bool, proxy: Callable[[], object] | None = None
) -> set[bytes]:
    """``proxy``: kills the one at ``port`` and starts it again; None: the broker has that port."""
    sent = {b"m%d" % number for number in range(COUNT)}
    settings: list[tuple[str, Any]] = [("grpc.max_reconnect_backoff_ms", 200), ("grpc.min_reconnect_backoff_ms", 100)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=settings) as channel:
        consumer = GivesUp(GrpcClient(channel), orderly=orderly)
        await make(server, orderly=orderly)
        for body in sorted(sent):
            await consumer.send(body)
        tasks = [asyncio.create_task(consumer.go_on(queue)) for queue in consumer.queues for _ in range(2)]
        for _ in range(ROUNDS):
            await asyncio.sleep(chance.uniform(0.1, 0.6))
            if proxy is not None and chance.random() < 0.7:
                proxy()
                continue
            server.kill()
            await asyncio.sleep(0.05)  # calls that were under way fail
            server.start()  # not in another thread: the process ends with the thread that has started it
        over = time.monotonic() + LONGEST_S
        while consumer.given_up != sent and time.monotonic() < over:
            await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
    return sent - consumer.given_up


@pytest.mark.kill
@pytest.mark.parametrize("orderly", [False, True])
def test_a_message_that_is_given_up_is_one_dead_letter(tmp_path: Path, orderly: bool) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    port = free_port()
    server = Server(tmp_path, "SYNC_FLUSH", f"grpcPort={port}\n")
    server.start()
    try:
        rest = asyncio.run(play(server, port, random.Random(seed), orderly=orderly))
        found = letters(server)
    finally:
        server.kill()
    judge(rest, found, seed)


@pytest.mark.kill
def test_the_same_through_a_proxy_that_is_killed_more_often_than_the_broker(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    port = free_port()
    server, proxy = Server(tmp_path, "SYNC_FLUSH"), GantryProcess(tmp_path / "proxy.log")

    def again() -> None:
        proxy.kill()
        proxy.start("proxy", "-n", server.name_servers, "--grpc-port", str(port), "--bind", "127.0.0.1")

    try:
        server.start()
        again()
        rest = asyncio.run(play(server, port, random.Random(seed), orderly=False, proxy=again))
        found = letters(server)
    finally:
        proxy.kill()
        server.kill()
    judge(rest, found, seed)


def judge(rest: set[bytes], found: Counter[bytes], seed: int) -> None:
    assert not rest, f"seed {seed}: {len(rest)} of {COUNT} were never given up"
    twice = sorted(body for body, count in found.items() if count > 1)
    assert (len(found), twice) == (COUNT, []), f"seed {seed}"
