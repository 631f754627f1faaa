"""Messages whose bodies grow over a consumer's limit, with a real broker: they keep nobody from the others, and are
kept."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.aio import (
    ConsumeFromWhere,
    LitePullConsumer,
    MessageView,
    PullConsumer,
    PushConsumer,
)
from gantrymq.errors import BodyTooLarge
from gantrymq.message import flags
from gantrymq.message.system_topics import DEAD_LETTER_PREFIX
from tests.client.peer import run, until
from tests.support.brokers import cluster

MIB = 1024 * 1024
LARGE = bytes(17 * MIB)
"""20 kB when it is compressed."""
FIRST = ConsumeFromWhere.FIRST_OFFSET


@contextlib.asynccontextmanager
async def holding(root: Path, *bodies: bytes) -> AsyncIterator[str]:
    """The address of a cluster with these messages in one queue. Those of more than 1 MiB are compressed: Java's
    clients send larger ones than ours do."""
    async with cluster(root / "store", with_name_server=True) as running:
        for body in bodies:
            packed = len(body) > MIB
            await running.sent(
                "T", zlib.compress(body, 9) if packed else body, sys_flag=flags.COMPRESSED if packed else 0
            )
        assert running.name_server is not None
        yield running.name_server.address


async def dead_letters(address: str, group: str, count: int) -> list[bytes]:
    """What lies in the dead letters of a group, with a reader whose limit is higher."""
    found: list[bytes] = []
    topic = DEAD_LETTER_PREFIX + group
    async with PullConsumer(name_servers=address, max_body_bytes=64 * MIB) as reader:
        for queue in await reader.queues(topic):
            offset, end = 0, await reader.max_offset(queue)
            while offset < end:
                pulled = await reader.pull(queue, offset)
                found += [view.body for view in pulled.messages]
                offset = pulled.next_offset
    assert len(found) == count
    return found


@pytest.mark.parametrize("orderly", [False, True])
def test_a_push_consumer_goes_on_behind_them(tmp_path: Path, orderly: bool) -> None:
    got: list[bytes] = []

    async def listener(messages: list[MessageView]) -> None:
        got.extend(view.body for view in messages)

    async def test() -> None:
        bodies = (b"before", LARGE, b"between", LARGE, bytes(9 * MIB), b"behind")
        async with holding(tmp_path, *bodies) as address:
            consumer = PushConsumer("CG", name_servers=address, listener=listener, from_where=FIRST, orderly=orderly)
            async with consumer.subscribe("T"):
                await until(lambda: len(got) == 4, 20)
            assert sorted(map(len, got)) == [6, 6, 7, 9 * MIB]
            assert not orderly or got == [b"before", b"between", bytes(9 * MIB), b"behind"]
            assert await dead_letters(address, "CG", 2) == [LARGE, LARGE]

    run(test, 60)


def test_a_broadcast_skips_them_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    got: list[bytes] = []

    async def listener(messages: list[MessageView]) -> None:
        got.extend(view.body for view in messages)

    async def test() -> None:
        async with holding(tmp_path, LARGE, b"behind") as address:
            settings: dict[str, Any] = {"broadcasting": True, "offset_dir": str(tmp_path / "offsets")}
            consumer = PushConsumer("CG", name_servers=address, listener=listener, from_where=FIRST, **settings)
            async with consumer.subscribe("T"):
                await until(lambda: got == [b"behind"], 20)

    run(test, 60)
    assert "is skipped: its body grows over max_body_bytes=16777216" in caplog.text


def test_a_poll_goes_on_behind_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with holding(tmp_path, b"before", LARGE, b"behind") as address:
            got: list[bytes] = []
            async with LitePullConsumer("CG", name_servers=address, from_where=FIRST).subscribe("T") as consumer:
                async with asyncio.timeout(20):
                    while len(got) < 2:
                        got += [view.body for view in await consumer.poll(timeout_ms=500)]
            assert got == [b"before", b"behind"]
            assert await dead_letters(address, "CG", 1) == [LARGE]

    run(test, 60)


def test_a_pull_names_the_message_and_where_to_go_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            holding(tmp_path, b"before", LARGE, b"behind") as address,
            PullConsumer(name_servers=address) as consumer,
        ):
            queue = next(one for one in await consumer.queues("T") if one.queue_id == 0)
            first = await consumer.pull(queue, 0)
            assert [view.body for view in first.messages] == [b"before"] and first.next_offset == 1
            with pytest.raises(BodyTooLarge, match="or go on at offset 2") as raised:
                await consumer.pull(queue, 1)
            assert raised.value.offset == 1 and not raised.value.retryable
            assert [view.body for view in (await consumer.pull(queue, 2)).messages] == [b"behind"]

    run(test, 60)
