"""Times that calls are given: checked before anything is sent. And batches at the limit of a body."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from gantrymq import aio
from gantrymq.aio import Message
from gantrymq.errors import ConfigError, MessageIllegal
from gantrymq.message.validation import MAX_BODY_BYTES
from tests.client.peer import run
from tests.client.real import server

NO_TIMES: list[Any] = [-1, "1", True, 1.5, 10**30]


def test_a_call_with_an_impossible_time_out_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            server(tmp_path) as address,
            aio.Producer("PG", name_servers=address) as producer,
            aio.LitePullConsumer("CG", name_servers=address).subscribe("T") as consumer,
        ):
            one = Message("T", b"x")
            for bad in NO_TIMES:
                with pytest.raises(ConfigError, match="timeout_ms must be"):
                    await consumer.poll(bad)
            for bad in [*NO_TIMES, 0]:
                for call in (
                    producer.send(one, None, bad),
                    producer.send_ordered(one, "k", bad),
                    producer.send_batch([one], None, bad),
                    producer.send_batches([one], None, bad),
                    producer.request(one, bad),
                ):
                    with pytest.raises(ConfigError, match="timeout_ms must be"):
                        await call
            assert await consumer.poll(0) == []

    run(test)


def test_batches_at_the_limit_of_a_body(tmp_path: Path) -> None:
    body = random.Random(4).randbytes(MAX_BODY_BYTES)

    async def test() -> None:
        async with (
            server(tmp_path, mapped_file_size_commit_log=16 * 1024 * 1024) as address,
            aio.Producer("PG", name_servers=address, send_timeout_ms=20_000) as producer,
        ):
            small = Message("T", b"x")
            assert len(await producer.send_batches([small, Message("T", body), small])) == 3
            with pytest.raises(MessageIllegal, match=r"the batch takes .* split it"):
                await producer.send_batch([Message("T", body[: MAX_BODY_BYTES // 4]) for _ in range(4)])

    run(test)
