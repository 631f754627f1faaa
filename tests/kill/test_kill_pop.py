"""A real broker is killed while messages are popped: acknowledged messages stay consumed, all others are delivered
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from pathlib import Path

import pytest

from gantrymq.errors import GantryError
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.pop import AckMessage
from gantrymq.remoting.client import RemotingClient
from tests.broker.remoting.test_pop import Got, pop_header, read, real_topic
from tests.kill.server import Server
from tests.support.brokers import new_client, send_header

TOPIC = "Popped"
ROUNDS = 4
COUNT = 150
"""Messages sent in each round."""
INVISIBLE_MS = 3_000
TIMEOUT_MS = 5_000


class Scenario:
    """The messages that were sent, popped and acknowledged."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.sent: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.tried: set[bytes] = set()
        """Messages whose acknowledgement was sent, but whose answer was lost."""
        self.wrong: list[bytes] = []

    async def send(self, client: RemotingClient, number: int) -> None:
        body = b"m%d" % number
        answer = await client.call(
            self.address, RequestCode.SEND_MESSAGE_V2, send_header(TOPIC, queue_id=number % 4), body,
            timeout_ms=TIMEOUT_MS,
        )  # fmt: skip
        if answer.code == ResponseCode.SUCCESS:
            self.sent.add(body)

    async def pop(self, client: RemotingClient, count: int = 8) -> list[Got]:
        header = pop_header(TOPIC, max_msg_nums=count, invisible_time=INVISIBLE_MS)
        answer = await client.call(self.address, RequestCode.POP_MESSAGE, header, timeout_ms=TIMEOUT_MS)
        found = read(answer, "broker-kill")
        self.wrong += [got.body for got in found if got.body in self.acked]
        return found

    async def ack(self, client: RemotingClient, got: Got) -> None:
        self.tried.add(got.body)
        header = AckMessage(
            consumer_group="CG", topic=real_topic(got, TOPIC), queue_id=got.handle.queue_id,
            extra_info=str(got.handle), offset=got.handle.offset,
        )  # fmt: skip
        answer = await client.call(self.address, RequestCode.ACK_MESSAGE, header, timeout_ms=TIMEOUT_MS)
        if answer.code == ResponseCode.SUCCESS and got.handle.visible_at > time.time() * 1000:
            self.acked.add(got.body)

    async def consume(self, client: RemotingClient, chance: random.Random) -> None:
        """Pop messages and acknowledge most of them, until the broker is killed."""
        while True:
            found = await self.pop(client)
            await asyncio.gather(*(self.ack(client, got) for got in found if chance.random() < 0.7))
            if not found:
                await asyncio.sleep(0.05)

    async def round(self, client: RemotingClient, first: int, chance: random.Random) -> None:
        with contextlib.suppress(GantryError):  # killed
            await asyncio.gather(
                self.consume(client, chance),
                self.consume(client, chance),
                *(self.send(client, number) for number in range(first, first + COUNT)),
            )

    async def drain(self, client: RemotingClient) -> None:
        """Consume all remaining messages, until none has come for longer than a message can be invisible."""
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 2 * INVISIBLE_MS / 1000:
            found = await self.pop(client, 32)
            if found:
                quiet_since = time.monotonic()
                await asyncio.gather(*(self.ack(client, got) for got in found))
            else:
                await asyncio.sleep(0.1)


@pytest.mark.kill
def test_no_popped_message_is_lost_and_no_acknowledged_one_comes_back(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    asyncio.run(_play(tmp_path, random.Random(seed)))


async def _play(root: Path, chance: random.Random) -> None:
    server = Server(root, "SYNC_FLUSH")
    scenario = Scenario(f"127.0.0.1:{server.broker_port}")
    try:
        for number in range(ROUNDS):
            server.start()
            client = new_client()
            playing = asyncio.create_task(scenario.round(client, number * COUNT, chance))
            await asyncio.sleep(chance.uniform(0.3, 2.0))
            server.kill()
            await playing
            await client.close()
        server.start()
        client = new_client()
        await scenario.drain(client)
        await client.close()
    finally:
        server.kill()
    assert scenario.wrong == []
    assert scenario.sent - scenario.tried == set(), "never acknowledged, and yet gone"
    assert len(scenario.acked) > COUNT
