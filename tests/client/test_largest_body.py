"""The largest body that is promised, 4 MiB, also when it cannot be made smaller; with a real broker."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from gantrymq.aio import ConsumeFromWhere, LocalTransactionState, Message, MessageView, Producer, PushConsumer
from gantrymq.aio import TransactionProducer as Transactions
from gantrymq.errors import MessageIllegal
from gantrymq.message.sizes import MAX_BODY_BYTES
from gantrymq.protocol import compression
from tests.client.peer import run, until
from tests.client.real import server

SEED = 8
LARGEST = random.Random(SEED).randbytes(MAX_BODY_BYTES)
"""Random bytes: every kind of compression makes them longer."""
SETTINGS: dict[str, Any] = {"send_timeout_ms": 20_000, "call_timeout_ms": 10_000}
LOG_BYTES = 16 * 1024 * 1024


class Commits:
    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def test_compressing_makes_the_largest_body_longer() -> None:
    assert len(compression.compress(LARGEST)) > MAX_BODY_BYTES, SEED


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
def test_the_largest_body_is_taken_in_every_way_of_sending(tmp_path: Path, kind: str) -> None:
    if kind != "ZLIB":
        pytest.importorskip({"LZ4": "lz4", "ZSTD": "zstandard"}[kind])
    got: dict[str, MessageView] = {}
    settings = {**SETTINGS, "compress_type": kind}

    async def test() -> None:
        async with (
            server(tmp_path, mapped_file_size_commit_log=LOG_BYTES) as address,
            Producer("PG", name_servers=address, **settings) as producer,
            Transactions("TG", name_servers=address, listener=Commits(), **settings) as transactions,
        ):

            async def listener(messages: list[MessageView]) -> None:
                for view in messages:
                    got[view.tags or ""] = view
                    if view.tags == "request":
                        await producer.reply(view, LARGEST)

            consumer = PushConsumer(
                "CG", name_servers=address, listener=listener, from_where=ConsumeFromWhere.FIRST_OFFSET
            )
            async with consumer.subscribe("T"):
                await producer.send(Message("T", LARGEST, tags="send"))
                await producer.send_oneway(Message("T", LARGEST, tags="oneway"))
                ended = await transactions.send_in_transaction(Message("T", LARGEST, tags="transaction"))
                assert ended.decided
                reply = await producer.request(Message("T", b"?", tags="request"), 20_000)
                assert reply.body == LARGEST and not reply.compressed_when_stored
                await until(lambda: len(got) == 4, 30)
                for tag in ("send", "oneway", "transaction"):
                    assert got[tag].body == LARGEST and not got[tag].compressed_when_stored, tag
                with pytest.raises(MessageIllegal, match="the limit is 4194304"):
                    await producer.send(Message("T", LARGEST + b"x"))

    run(test)


def test_what_gets_smaller_travels_compressed(tmp_path: Path) -> None:
    got: list[MessageView] = []

    async def test() -> None:
        async def listener(messages: list[MessageView]) -> None:
            got.extend(messages)

        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            consumer = PushConsumer("CG", name_servers=address, listener=listener)
            async with consumer.subscribe("T"):
                await producer.send(Message("T", b"x" * 10_000))
                await until(lambda: got)
        assert got[0].compressed_when_stored and got[0].body == b"x" * 10_000

    run(test)
