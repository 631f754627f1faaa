"""Clients that may end a transaction through the gRPC door; test_door.py has what an end does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio

from gantrymq.demo.ports import free_port
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.message import flags
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.tools import ProducerGroupOnly
from tests.broker.grpc.test_door import COMMIT, HALF, half, story
from tests.support.brokers import Cluster
from tests.support.grpc_client import GrpcClient


@asynccontextmanager
async def from_another_address(port: int) -> AsyncIterator[str]:
    """Where a client connects to reach the door from 127.0.0.2."""

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while some := await source.read(1 << 16):
            target.write(some)
        target.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

    server = await asyncio.start_server(connected, "127.0.0.1")
    try:
        yield "{}:{}".format(*server.sockets[0].getsockname())
    finally:
        server.close()


def test_behind_a_restart_a_transaction_is_ended_from_another_address(tmp_path: Path) -> None:
    """As by the official client for Python, which comes back by IPv6 or IPv4, and says its settings 300 s later."""

    async def before(running: Cluster, client: GrpcClient) -> None:
        left.append(await half(client))

    async def after(running: Cluster, client: GrpcClient) -> None:
        of_others = HALF.replace("PGROUP\x01orders", "PGROUP\x01others").replace("half-1", "half-2")
        await running.sent("orders", b"of another group", of_others, sys_flag=flags.PREPARED, producer_group="others")
        async with from_another_address(port) as target, grpc.aio.insecure_channel(target) as channel:
            moved = GrpcClient(channel)
            assert (await moved.end("orders", left[0], left[0], COMMIT)).code == Code.OK
            assert (await moved.end("orders", "half-2", "half-2", COMMIT)).code == Code.INVALID_TRANSACTION_ID
        assert len((await client.receive("orders"))[1]) == 1

    left: list[str] = []
    port = free_port()
    story(before, tmp_path)
    story(after, tmp_path, grpc_port=port)


def test_an_end_of_nothing_makes_nobody_a_producer(tmp_path: Path) -> None:
    """Else a client makes the broker remember topics without a limit."""

    async def produces(running: Cluster, topic: str) -> bool:
        wanted = ProducerGroupOnly(producer_group=topic)
        return (await running.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, wanted)).code == ResponseCode.SUCCESS

    async def work(running: Cluster, client: GrpcClient) -> None:
        await half(client)
        for number in range(5):
            code = (await client.end(f"never-{number}", "no-half", "no-half", COMMIT)).code
            assert code == Code.INVALID_TRANSACTION_ID
            assert not await produces(running, f"never-{number}")
        assert await produces(running, "orders")

    story(work, tmp_path)
