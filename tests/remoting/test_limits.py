"""How many connections a server accepts."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.support.sim_clock import SimClock

from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_request, encode_response
from gantrymq.remoting.limits import ConnectionLimits, OpenConnections
from gantrymq.remoting.server import RemotingServer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork, split_address

CODE = RequestCode.HEART_BEAT


def test_all_and_those_of_one_host_are_limited() -> None:
    open_ = OpenConnections(SimClock(), ConnectionLimits(total=3, per_host=2))
    assert [open_.admit(peer) for peer in ("a:1", "a:2", "a:3", "b:1", "c:1")] == [True, True, False, True, False]
    assert (open_.count, open_.refused) == (3, 2)
    open_.release("a:1")
    assert open_.admit("c:1") and not open_.admit("c:2")
    open_.limits = ConnectionLimits()
    assert open_.admit("c:2") and open_.admit("a:3")
    for peer in ("a:2", "a:3", "b:1", "c:1", "c:2"):
        open_.release(peer)
    assert open_.count == 0 and not open_._of_host


def test_many_refusals_are_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        clock = SimClock()
        open_ = OpenConnections(clock, ConnectionLimits(total=1))
        open_.admit("[::1]:1")
        for number in range(100):
            assert not open_.admit(f"[::1]:{number}")
        await clock.advance(11)
        assert not open_.admit("b:1")

    asyncio.run(test())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 and "raise maxConnections" in lines[0] and "101 refused" in lines[1]


def test_a_refused_connection_is_closed_and_makes_room_for_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    asked = encode_request(CODE, 1)

    async def answered(host: str, port: int) -> tuple[asyncio.StreamWriter, bytes]:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(asked)
            return writer, await reader.read(1000)
        except ConnectionError:
            return writer, b""

    async def test() -> None:
        closed: list[object] = []
        server = RemotingServer(
            TcpNetwork(), SystemClock(), {CODE: lambda session, command: encode_response(command, 0)},
            closed=closed.append, limits=ConnectionLimits(per_host=2),
        )  # fmt: skip
        host, port = split_address(await server.start("127.0.0.1", 0))
        first, answer = await answered(host, port)
        second, other_answer = await answered(host, port)
        assert answer and other_answer
        for _ in range(5):
            assert (await answered(host, port))[1] == b""
        assert (server.connections.count, server.connections.refused) == (2, 5)
        first.close()
        async with asyncio.timeout(30):
            while server.connections.count == 2:
                await asyncio.sleep(0.01)
        third, answer = await answered(host, port)
        assert answer
        await server.close()
        second.close(), third.close()

    asyncio.run(test())
