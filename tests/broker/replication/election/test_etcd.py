"""The record in a real etcd."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.broker.replication.election.etcd import EtcdRecords
from gantrymq.broker.replication.election.record import Member, beaten, first
from gantrymq.broker.replication.election.record_store import NEVER, Held
from gantrymq.demo.ports import free_port
from gantrymq.errors import RemoteProtocolError, TimedOut, Unreachable
from tests.kill.group import Etcd

pytestmark = pytest.mark.skipif(not Etcd.is_here(), reason="etcd is not installed (Debian: etcd-server)")
Test = Callable[..., Coroutine[Any, Any, None]]


def in_a_loop(test: Test) -> Callable[..., None]:
    """A test that waits."""

    @functools.wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    return run


ME = Member(5, 1, "10.0.0.1:10911", "10.0.0.1:10912")


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    node = Etcd(tmp_path)
    node.start()
    yield node
    node.kill()


def records(*ports: int) -> EtcdRecords:
    return EtcdRecords(tuple(f"http://127.0.0.1:{port}" for port in ports), "c", "broker-a", 1.0)


@in_a_loop
async def test_it_is_written_only_if_nobody_else_has_written(etcd: Etcd) -> None:
    mine, theirs = records(etcd.port), records(etcd.port)
    assert await mine.read() == Held(None, NEVER)
    held = await mine.replace(Held(None, NEVER), first(ME))
    assert held is not None and await theirs.read() == held
    assert await theirs.replace(Held(None, NEVER), first(ME)) is None
    again = await theirs.replace(held, beaten(first(ME)))
    assert again is not None and again.revision > held.revision
    assert await mine.replace(held, first(ME)) is None
    assert await mine.read() == again


@in_a_loop
async def test_of_many_that_write_one_succeeds(etcd: Etcd) -> None:
    held = await records(etcd.port).replace(Held(None, NEVER), first(ME))
    assert held is not None
    written = await asyncio.gather(*(records(etcd.port).replace(held, beaten(first(ME))) for _ in range(20)))
    assert sum(one is not None for one in written) == 1


@in_a_loop
async def test_a_node_that_is_away_is_passed_over(etcd: Etcd) -> None:
    several = records(free_port(), etcd.port)
    held = await several.replace(Held(None, NEVER), first(ME))
    assert held is not None and await several.read() == held


@in_a_loop
async def test_a_silent_node_is_not_asked_to_write_twice(etcd: Etcd) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    silent = server.sockets[0].getsockname()[1]
    with pytest.raises((TimedOut, Unreachable)):
        await records(silent, etcd.port).replace(Held(None, NEVER), first(ME))
    assert await records(silent, etcd.port).read() == Held(None, NEVER)
    server.close()


@in_a_loop
async def test_nobody_there_and_somebody_else_are_said() -> None:
    with pytest.raises(Unreachable):
        await records(free_port()).read()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    with pytest.raises(RemoteProtocolError, match="does not answer as etcd does"):
        await records(server.sockets[0].getsockname()[1]).read()
    server.close()
