"""The broker dies between the commit in the user's database and the end of the half message: its producer, which lives,
tells it again as soon as it is back."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from gantrymq.aio import Message, PullConsumer, TransactionProducer
from gantrymq.client.listener import ListenerAnswer
from gantrymq.errors import GantryError
from gantrymq.message import properties
from gantrymq.message.transaction import LocalTransactionState
from tests.client.test_transaction_producer import Listener
from tests.kill.server import Server

COMMIT = ListenerAnswer(LocalTransactionState.COMMIT)


async def known(producer: TransactionProducer, topic: str) -> None:
    """Wait until the name server knows the broker, which listens a little earlier."""
    while True:
        with contextlib.suppress(GantryError):
            await producer.queues(topic)
            return
        await asyncio.sleep(0.05)


@pytest.mark.kill
def test_an_end_that_did_not_reach_the_broker_is_repeated_when_the_broker_is_back(tmp_path: Path) -> None:
    server = Server(tmp_path, "SYNC_FLUSH")

    async def play() -> bytes:
        producer = TransactionProducer("g", name_servers=server.name_servers, listener=Listener(), end_retries=0)
        async with producer, PullConsumer(name_servers=server.name_servers) as consumer:
            await known(producer, "T")
            halves = producer.halves()
            # Nobody is asked about it for an hour: it is delivered only if it is ended.
            halves.add(0, Message("T", b"paid", properties={properties.CHECK_IMMUNITY_SECONDS: "3600"}))
            await halves.stored()
            await asyncio.to_thread(server.kill)
            (result,) = await halves.end(COMMIT)
            assert not result.decided
            await asyncio.to_thread(server.start)
            while True:
                with contextlib.suppress(GantryError):  # the topic is made by the first message that is delivered
                    for queue in await consumer.queues("T"):
                        found = await consumer.pull(queue, 0, wait_ms=100)
                        if found.messages:
                            return found.messages[0].body
                await asyncio.sleep(0.05)

    server.start()
    try:
        assert asyncio.run(play()) == b"paid"
    finally:
        server.kill()
