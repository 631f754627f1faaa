"""A name server that does not answer, or whose name nobody knows, costs neither a send nor the start of a broker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gantrymq import Message
from gantrymq.aio import Admin, Producer
from gantrymq.errors import Unreachable
from gantrymq.protocol.codes import RequestCode
from gantrymq.remoting.several import Several
from gantrymq.runtime.clock import SystemClock
from tests.client import real
from tests.client.peer import cluster
from tests.support.brokers import new_client
from tests.support.silent import KINDS, accepts_and_never_answers

UNKNOWN = "no-such-name-server.invalid:9876"
SEND_TIMEOUT_MS = 3_000
"""The default of Apache's clients; a silent name server took all of it."""


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [1, 2])
def test_the_first_send_of_a_process_is_not_lost_to_silent_name_servers(kind: str, before: int) -> None:
    async def test() -> None:
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(KINDS[kind]()) for _ in range(before)]
            async with cluster() as peers:
                names = ";".join([*silent, peers.address])
                async with Producer("p", name_servers=names, send_timeout_ms=SEND_TIMEOUT_MS, retries=0) as producer:
                    await producer.send(Message("T", b"first"))
                async with Admin(names, call_timeout_ms=SEND_TIMEOUT_MS) as admin:
                    assert await admin.route("T")

    run(test)


def test_a_silent_name_server_is_remembered() -> None:
    async def test() -> None:
        with accepts_and_never_answers() as silent:
            async with cluster() as peers:
                client = new_client()
                several = Several(client, SystemClock(), [silent, peers.address])
                await several.ask(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=SEND_TIMEOUT_MS)
                assert several.addresses == [peers.address, silent]
                await client.close()

    run(test)


def test_a_name_that_cannot_be_resolved_is_passed_over() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("p", name_servers=f"{UNKNOWN};{peers.address}") as producer:
            await producer.send(Message("T", b"first"))

    run(test)


def test_when_none_answers_the_sentence_names_all() -> None:
    async def test() -> None:
        with accepts_and_never_answers() as silent:
            async with Admin(f"{UNKNOWN};{silent}", call_timeout_ms=100) as admin:
                with pytest.raises(Unreachable) as raised:
                    await admin.topics()
                assert silent in str(raised.value) and UNKNOWN in str(raised.value)
                assert "start one there" in str(raised.value)

    run(test)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_is_found_although_another_name_server_is_silent(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        with KINDS[kind]() as silent:
            async with real.name_server() as names, real.broker(tmp_path, f"{silent};{names}") as broker:
                assert broker.registration.unregistered == [silent]
                async with Admin(names) as admin:
                    await admin.create_topic("T", queues=1)
                async with Producer("p", name_servers=f"{silent};{names}", retries=0) as producer:
                    await producer.send(Message("T", b"first"))

    run(test)


@pytest.mark.slow
def test_a_broker_starts_although_a_name_server_has_no_name_yet(tmp_path: Path) -> None:
    async def test() -> None:
        async with real.name_server() as names, real.broker(tmp_path, f"{UNKNOWN};{names}") as broker:
            assert broker.registration.unregistered == [UNKNOWN]
            async with Admin(names) as admin:
                await admin.create_topic("T", queues=1)

    run(test)
