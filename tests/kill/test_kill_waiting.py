"""A real broker is killed and stopped while it delivers delayed and timer messages: each of them arrives once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gantrymq.message import properties
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.pull import GetMaxOffset, OffsetAnswer
from gantrymq.remoting.client import RemotingClient
from gantrymq.store.config import StoreConfig
from gantrymq.store.message_store import MessageStore
from tests.kill.server import Server
from tests.support.brokers import new_client, send_header
from tests.support.places import open_store

TOPICS = DELAYED, TIMED = "Delayed", "Timed"
COUNT = 1_000
"""Messages of each kind."""
WAIT_S = 3
TIMEOUT_MS = 10_000
LIMIT_S = 60.0


class Scenario:
    """The messages that wait, and how the broker is ended while they are delivered."""

    def __init__(self, root: Path) -> None:
        self.server = Server(root, "SYNC_FLUSH", f"messageDelayLevel={WAIT_S}s\n")
        self.address = f"127.0.0.1:{self.server.broker_port}"

    async def send_all(self, client: RemotingClient) -> None:
        # All timer messages are of one second, so that the broker dies in the middle of a slot.
        at_ms = (int(time.time()) + WAIT_S) * 1000
        texts = {
            DELAYED: properties.encode({properties.DELAY: "1"}),
            TIMED: properties.encode({properties.TIMER_DELIVER_MS: str(at_ms)}),
        }
        sent = [self._send(client, topic, text, number) for number in range(COUNT) for topic, text in texts.items()]
        await asyncio.gather(*sent)

    async def _send(self, client: RemotingClient, topic: str, text: str, number: int) -> None:
        answer = await client.call(
            self.address, RequestCode.SEND_MESSAGE_V2, send_header(topic, text), b"%d" % number, timeout_ms=TIMEOUT_MS
        )
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def delivered(self, client: RemotingClient) -> int:
        found = 0
        for topic in TOPICS:
            header = GetMaxOffset(topic=topic, queue_id=0)
            answer = await client.call(self.address, RequestCode.GET_MAX_OFFSET, header, timeout_ms=TIMEOUT_MS)
            found += answer.header(OffsetAnswer).offset
        return found

    async def until(self, client: RemotingClient, count: int) -> None:
        began = time.monotonic()
        while await self.delivered(client) < count:
            assert time.monotonic() - began < LIMIT_S, f"{await self.delivered(client)} of {count} arrived"

    async def end_at(self, client: RemotingClient, share: float, end: Callable[[], None]) -> None:
        """End the broker when so much has arrived, and start it again."""
        await self.until(client, int(share * 2 * COUNT))
        end()
        self.server.start()


@pytest.mark.kill
def test_what_waited_arrives_once_however_the_broker_ends(tmp_path: Path) -> None:
    asyncio.run(_play(Scenario(tmp_path)))
    copies = asyncio.run(_copies(StoreConfig(
        str(tmp_path / "store"), mapped_file_size_commit_log=8_388_608, mapped_file_size_consume_queue=60_000,
        max_hash_slot_num=5_000, max_index_num=20_000,
    )))  # fmt: skip
    for topic in TOPICS:
        found = Counter(copies[topic].values())
        print(f"{topic}: of {COUNT} messages, by how often they arrived: {dict(found)}")
        assert found == {1: COUNT}, topic


async def _play(scenario: Scenario) -> None:
    server = scenario.server
    try:
        server.start()
        client = new_client()
        await scenario.send_all(client)
        for share, end in ((0.1, server.kill), (0.3, server.stop), (0.6, server.kill)):
            await scenario.end_at(client, share, end)
            await client.close()
            client = new_client()
        await scenario.until(client, 2 * COUNT)
        server.stop()
        await client.close()
    finally:
        server.kill()


async def _copies(config: StoreConfig) -> dict[str, Counter[bytes]]:
    """How often each message stands in its topic."""
    store: MessageStore = open_store(config)
    found: dict[str, Counter[bytes]] = {topic: Counter() for topic in TOPICS}
    for record in store.scan(store.min_log_offset):
        if record.topic in found:
            found[record.topic][record.body] += 1
    await store.close()
    return found
