"""A broker is backed up under load and killed, its disk is gone, and a broker starts on what was restored."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from gantrymq.aio import Message, PullConsumer, TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message import properties
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from tests.cli.tool import eventually
from tests.kill.server import Server
from tests.kill.takeover import COMMIT, FIRST, TOPIC, Book, load
from tests.support.brokers import new_client, send_header
from tests.upgrade.contents import GROUP, SETTINGS, fill, judge
from tests.upgrade.run import ROOT, serving

WAITING = DELAYED, TIMED = "Delayed", "Timed"
COUNT = 150
"""Messages that wait, of each kind."""
WAITS_S = (1, 2, 4, 8)
LOADS = 4
LIMIT_S = 120.0


def gantry(*words: str) -> str:
    """A command in a process of its own; what it prints."""
    done = subprocess.run([sys.executable, "-m", "gantrymq.cli.main", *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


class Story:
    """One server, its backups, and what the application knows."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.book = Book(self.rng)
        self.wait_s = self.rng.choice(WAITS_S)
        flush = self.rng.choice(("SYNC_FLUSH", "ASYNC_FLUSH"))
        self.server = Server(root, flush, f"messageDelayLevel={self.wait_s}s\n")
        self.backups = str(root / "backups")

    async def send_waiting(self, client: RemotingClient) -> None:
        at_ms = (int(time.time()) + self.wait_s) * 1000
        texts = {
            DELAYED: properties.encode({properties.DELAY: "1"}),
            TIMED: properties.encode({properties.TIMER_DELIVER_MS: str(at_ms)}),
        }
        for number in range(COUNT):
            for topic, text in texts.items():
                answer = await client.call(
                    f"127.0.0.1:{self.server.broker_port}", RequestCode.SEND_MESSAGE_V2, send_header(topic, text),
                    b"%d" % number, timeout_ms=10_000,
                )  # fmt: skip
                assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def back_up(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        await asyncio.to_thread(gantry, "backup", "--store", str(self.server.store), "--to", self.backups)

    async def until_lost(self) -> set[bytes]:
        """Play until the disk is gone; the transactions that were answered before the last backup began."""
        async with TransactionProducer(
            "g", name_servers=self.server.name_servers, listener=self.book, end_retries=0
        ) as producer:
            await self.until_known(producer)
            loads = [asyncio.create_task(load(producer, self.book, number)) for number in range(LOADS)]
            client = new_client()
            await self.send_waiting(client)
            await client.close()
            for _ in range(2):
                await self.back_up(self.rng.random())
            answered = self.book.answered.copy()
            await self.back_up(0)
            await asyncio.sleep(self.rng.random())
            await asyncio.to_thread(self.server.kill)
            await asyncio.gather(*loads)
        return answered

    async def until_known(self, producer: TransactionProducer) -> None:
        """Until the broker takes messages."""
        while True:
            with contextlib.suppress(GantryError):
                await producer.send(Message(TOPIC, FIRST))
                return
            await asyncio.sleep(0.1)

    async def delivered(self, consumer: PullConsumer, topic: str) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        for queue in await consumer.queues(topic):
            offset = 0
            while (pulled := await consumer.pull(queue, offset, wait_ms=0)).messages:
                found.update(message.body for message in pulled.messages)
                offset = pulled.next_offset
        return found

    async def after(self, wanted: dict[str, set[bytes]]) -> dict[str, Counter[bytes]]:
        """What the restored broker delivers in these topics, when everything is delivered that must be."""
        async with (
            TransactionProducer("g", name_servers=self.server.name_servers, listener=self.book, topics=[TOPIC]),
            PullConsumer(name_servers=self.server.name_servers) as consumer,
        ):
            begun = time.monotonic()
            while True:
                found = {topic: await self.delivered(consumer, topic) for topic in wanted}
                if all(bodies <= found[topic].keys() for topic, bodies in wanted.items()):
                    break
                missing = {topic: len(bodies - found[topic].keys()) for topic, bodies in wanted.items()}
                assert time.monotonic() - begun < LIMIT_S, f"missing: {missing}"
                await asyncio.sleep(0.3)
            await asyncio.sleep(3)  # whatever is delivered wrongly comes within the check interval
            return {topic: await self.delivered(consumer, topic) for topic in wanted}


@pytest.mark.kill
def test_the_disk_is_gone(tmp_path: Path) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    story = Story(tmp_path, seed)
    try:
        story.server.start()
        answered = asyncio.run(story.until_lost())
        shutil.rmtree(story.server.store)
        print(gantry("backup", "list", story.backups), gantry("backup", "verify", story.backups))
        print(gantry("restore", "--from", story.backups, "--store", str(story.server.store)))
        story.server.start()
        due = {body for body in answered if story.book.outcomes[body] is COMMIT}
        assert len(due) > 20
        everything = {b"%d" % number for number in range(COUNT)}
        found = asyncio.run(story.after({TOPIC: due, DELAYED: everything, TIMED: everything}))
        story.server.stop()
    finally:
        story.server.kill()
    for topic, bodies in found.items():
        del bodies[FIRST]
        assert max(bodies.values()) == 1, f"{topic}: delivered twice"
    assert all(story.book.outcomes[body] is COMMIT for body in found[TOPIC])
    # The restored broker goes on in the same target.
    print(gantry("backup", "--store", str(story.server.store), "--to", story.backups))
    print(gantry("backup", "verify", story.backups))


@pytest.mark.kill
def test_one_of_everything_comes_back(tmp_path: Path) -> None:
    """What an upgrade keeps, a backup keeps: users, types, open and parked half messages, popped and delayed ones."""
    before, backups = Server(tmp_path / "a", "SYNC_FLUSH", SETTINGS), str(tmp_path / "backups")
    try:
        before.start()
        fill(before.name_servers)
        offsets = before.store / "config" / "consumerOffset.json"
        # The broker writes positions every few seconds; a backup has them as they were written last.
        eventually(lambda: offsets.exists() and f"@{GROUP}" in offsets.read_text())
        gantry("backup", "--store", str(before.store), "--to", backups)
    finally:
        before.kill()
    shutil.rmtree(before.store)
    gantry("restore", "--from", backups, "--store", str(tmp_path / "b" / "store"))
    with serving(tmp_path / "b", ROOT / "src") as after:
        assert judge(after.name_servers) == {}


@pytest.mark.kill
def test_a_point_in_time_has_what_was_decided_then_and_asks_about_the_rest(tmp_path: Path) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    story = Story(tmp_path, seed)
    story.wait_s = 1

    async def until_lost() -> tuple[int, set[bytes], set[bytes]]:
        """A time, the transactions that were answered before it, and all that had begun then."""
        async with TransactionProducer(
            "g", name_servers=story.server.name_servers, listener=story.book, end_retries=0
        ) as producer:
            await story.until_known(producer)
            loads = [asyncio.create_task(load(producer, story.book, number)) for number in range(LOADS)]
            await story.back_up(story.rng.random())
            await asyncio.sleep(0.5 + story.rng.random())
            answered = story.book.answered.copy()
            at_ms = SystemClock().wall_ms()
            await asyncio.sleep(0.2)
            begun = set(story.book.outcomes)
            await story.back_up(0)
            await asyncio.to_thread(story.server.kill)
            await asyncio.gather(*loads)
        return at_ms, answered, begun

    try:
        story.server.start()
        at_ms, answered, begun = asyncio.run(until_lost())
        shutil.rmtree(story.server.store)
        print(gantry("restore", "--from", story.backups, "--store", str(story.server.store), "--at", str(at_ms)))
        story.server.start()
        due = {body for body in answered if story.book.outcomes[body] is COMMIT}
        found = asyncio.run(story.after({TOPIC: due}))[TOPIC]
    finally:
        story.server.kill()
    del found[FIRST]
    assert max(found.values()) == 1, "delivered twice"
    assert found.keys() <= begun, "something is later than the point in time"
    assert all(story.book.outcomes[body] is COMMIT for body in found)
