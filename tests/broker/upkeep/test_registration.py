"""How a broker registers, and what it reports when another broker has its name and id."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gantrymq.broker.broker import Broker
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.kv_config import KVConfig
from gantrymq.nameserver.processors import Processors
from gantrymq.nameserver.route_table import Registration, RouteTable
from gantrymq.protocol.bodies.route import ClusterInfo
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.remoting.server import RemotingServer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.client.real import name_server
from tests.support.brokers import broker_config, new_client, until

NAME = "broker-a"


@contextlib.asynccontextmanager
async def broker(store: Path, name_servers: str) -> AsyncIterator[Broker]:
    config = broker_config(store, broker_name=NAME, namesrv_addr=name_servers)
    running = Broker(config, TcpNetwork(), SystemClock(), SystemRng(), OsDisk())
    await running.start()
    try:
        yield running
    finally:
        await running.close()


async def known(address: str) -> str | None:
    """Where a name server says the master of this name is."""
    client = new_client()
    answer = await client.call(address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=5_000)
    await client.close()
    assert answer.code == ResponseCode.SUCCESS
    found = ClusterInfo.decode(answer.body).broker_addr_table.get(NAME)
    return found.broker_addrs.get(0) if found is not None else None


def next_round(broker: Broker) -> None:
    """As if ``registerNameServerPeriod`` were over."""
    for turn in broker.registration._turns.values():
        turn.next_round = 0.0
        turn.wake.set()


class Replacing(RouteTable):
    """As Apache's name servers: the last one that registers has the name."""

    def rival(self, registration: Registration, session: int, now: float) -> str | None:
        return None


@contextlib.asynccontextmanager
async def replacing_name_server() -> AsyncIterator[str]:
    clock, routes = SystemClock(), Replacing()
    processors = Processors(NameServerConfig(), routes, KVConfig(OsDisk(), ""), clock)
    server = RemotingServer(
        TcpNetwork(), clock, processors.table(), closed=lambda session: _ignore(routes.session_closed(session.id))
    )
    try:
        yield await server.start("127.0.0.1", 0)
    finally:
        await server.close()


def _ignore(_: object) -> None:
    return None


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.slow
def test_the_second_broker_of_a_name_says_so_and_is_taken_when_the_first_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with name_server() as names:
            async with broker(tmp_path / "1", names) as first:
                assert not first.registration.refused
                async with broker(tmp_path / "2", names) as second:
                    (reason,) = second.registration.refused.values()
                    assert first.address in reason and "brokerName" in reason
                    assert any(first.address in text and second.address in text for text in errors(caplog))
                    assert await known(names) == first.address
                assert await known(names) == first.address, "the goodbye of the second one is not that of the first"
                third = broker(tmp_path / "3", names)
                running = await third.__aenter__()
                assert await known(names) == first.address

            async def moved() -> bool:
                return await known(names) == running.address

            await until(moved)
            await until(lambda: not running.registration.refused)
            await third.__aexit__(None, None, None)
            assert await known(names) is None

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_broker_that_comes_back_somewhere_else_is_taken_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as names:
            for _ in range(2):
                async with broker(tmp_path, names) as running:
                    assert not running.registration.refused
                    assert await known(names) == running.address

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_at_a_name_server_that_replaces_silently_both_brokers_hear_of_each_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with replacing_name_server() as names, broker(tmp_path / "1", names) as first:
            async with broker(tmp_path / "2", names) as second:
                (said,) = errors(caplog)
                assert first.address in said and second.address in said and "brokerName" in said
                assert await known(names) == second.address
                caplog.clear()
                next_round(first)
                await until(lambda: bool(errors(caplog)))
                assert second.address in errors(caplog)[0] and first.address in errors(caplog)[0]
                await until(lambda: _is(names, first.address))
            assert await known(names) == first.address, "the goodbye of the second one is not that of the first"

    asyncio.run(asyncio.wait_for(scenario(), 60))


async def _is(names: str, address: str) -> bool:
    return await known(names) == address


def test_a_broker_alone_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with replacing_name_server() as names, broker(tmp_path, names) as running:
            next_round(running)
            await until(lambda: _is(names, running.address))
            assert not errors(caplog)

    asyncio.run(asyncio.wait_for(scenario(), 60))
