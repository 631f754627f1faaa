"""A proxy that keeps a message invisible for its client is killed: the proxy that the client goes to keeps on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio
import pytest

from gantrymq import Admin
from gantrymq.demo.ports import free_port
from gantrymq.grpc.definition_pb2 import Code, Message
from gantrymq.message.receipt_handle import parse
from gantrymq.protocol.bodies.pop import HeldItem, HeldList
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.pop import ListHeld
from tests.kill.server import Server
from tests.support.brokers import new_client, until
from tests.support.gantry_process import GantryProcess
from tests.support.grpc_client import GrpcClient, consumer, message

EVER_MS = 10**9
GROUP = "group"
SECONDS = 180
"""For all of it."""


class Renewed:
    """What the broker notes about the one message that is in hand."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._client = new_client()

    async def note(self) -> HeldItem | None:
        header = ListHeld(within_ms=EVER_MS)
        answer = await self._client.call(self._broker, RequestCode.LIST_HELD, header, timeout_ms=10_000)
        held = HeldList.decode(answer.body).held
        return held[0] if held else None

    async def pop_time(self) -> int:
        """Of the handle that counts now: it changes with each renewal. 0: there is no note."""
        note = await self.note()
        return 0 if note is None else parse(note.handle).pop_time

    async def changes(self, times: int) -> None:
        """Return when it was renewed so often."""
        for _ in range(times):
            before = await self.pop_time()

            async def changed(before: int = before) -> bool:
                return await self.pop_time() not in (0, before)

            await until(changed)

    async def close(self) -> None:
        await self._client.close()


@pytest.mark.kill
def test_another_proxy_goes_on_with_the_renewals_of_one_that_was_killed(tmp_path: Path) -> None:
    server = Server(tmp_path, "ASYNC_FLUSH")
    ports = [free_port(), free_port()]
    proxies = [GantryProcess(tmp_path / f"proxy-{port}.log", "tests.kill.doors.quick_renewals") for port in ports]
    try:
        server.start()
        with Admin(server.name_servers) as admin:
            admin.create_topic("orders", queues=1)
        for proxy, port in zip(proxies, ports, strict=True):
            words = ("-n", server.name_servers, "--grpc-port", str(port), "--bind", "127.0.0.1")
            proxy.start("proxy", *words)
        asyncio.run(story(server, proxies[0], [f"127.0.0.1:{port}" for port in ports]))
    finally:
        for proxy in proxies:
            proxy.kill()
        server.kill()


async def story(server: Server, killed: GantryProcess, doors: list[str]) -> None:
    renewed = Renewed(f"127.0.0.1:{server.broker_port}")
    async with (
        asyncio.timeout(SECONDS),
        grpc.aio.insecure_channel(doors[0]) as first,
        grpc.aio.insecure_channel(doors[1]) as second,
    ):
        before, after = GrpcClient(first, "worker"), GrpcClient(second, "worker")
        await until(lambda: sent(before))
        got: list[Message] = []
        while not got:
            got = (await before.receive("orders", GROUP, renew=True))[1]
        await until(lambda: noted(renewed))
        killed.kill()
        others = asyncio.create_task(received_by_others(GrpcClient(second, "other")))
        async with after.telemetry(consumer(GROUP, "orders")) as answer:
            assert answer.status.code == Code.OK
            await renewed.changes(2)
            assert not others.done(), "somebody else got the message while its client worked on it"
            assert (await after.ack("orders", got[0], group=GROUP)).entries[0].status.code == Code.OK
            await until(lambda: nothing(renewed))
        others.cancel()
        await asyncio.gather(others, return_exceptions=True)
    await renewed.close()


async def sent(client: GrpcClient) -> bool:
    return (await client.send(message("orders"))).status.code == Code.OK


async def noted(renewed: Renewed) -> bool:
    return not await nothing(renewed)


async def nothing(renewed: Renewed) -> bool:
    return await renewed.note() is None


async def received_by_others(client: GrpcClient) -> Message:
    """Another consumer of the group waits all the time."""
    while True:
        _, got = await client.receive("orders", GROUP, seconds=2)
        if got:
            return got[0]
