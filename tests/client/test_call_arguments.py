"""Arguments of calls: checked before anything is sent. And batches at the limit of a body."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gantrymq
from gantrymq import aio
from gantrymq.aio import Message
from gantrymq.errors import ConfigError, MessageIllegal
from gantrymq.message.queues import MessageQueue
from gantrymq.message.validation import MAX_BODY_BYTES
from tests.client.peer import run
from tests.client.real import server
from tests.client.test_sync import SEND, peers_in_a_thread
from tests.client.test_transaction_producer import Listener

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


@pytest.mark.parametrize("wrong", ["hello", None, b"x", 5, {"topic": "T"}])
def test_what_is_no_message_is_refused_in_every_way_of_sending(wrong: Any) -> None:
    with peers_in_a_thread() as peers:
        listener = Listener()
        with gantrymq.TransactionProducer("pg", name_servers=peers.address, listener=listener) as producer:
            ways: list[Callable[[], Any]] = [
                lambda: producer.send(wrong),
                lambda: producer.send_oneway(wrong),
                lambda: producer.send_async(wrong).result(10),
                lambda: producer.send_ordered(wrong, "key"),
                lambda: producer.send_batch([wrong]),
                lambda: producer.send_in_transaction(wrong),
                lambda: producer.request(wrong),
            ]
            for way in ways:
                with pytest.raises(MessageIllegal, match="must be a Message"):
                    way()
            with pytest.raises(MessageIllegal, match="must be a list"):
                producer.send_batch(wrong)
        assert not peers.broker.requests or all(command.code != SEND for command in peers.broker.requests)


@pytest.mark.parametrize(
    ("queue", "words"), [(3, "must be a MessageQueue"), (MessageQueue("U", "broker-a", 0), "a queue of another one")]
)
def test_a_queue_that_is_none_of_the_topic_is_refused(queue: Any, words: str) -> None:
    """The message went to the topic of the queue."""
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        message = Message("T", b"x")
        ways: list[Callable[[], Any]] = [
            lambda: producer.send(message, queue),
            lambda: producer.send_oneway(message, queue),
            lambda: producer.send_batch([message], queue),
            lambda: producer.request(message, queue=queue),
        ]
        for way in ways:
            with pytest.raises(MessageIllegal, match=words):
                way()
