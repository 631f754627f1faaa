"""A broker that starts on what was restored: topics, groups, users, positions, queue offsets, and as a replica."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from gantrymq.demo.ports import free_port
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.topics import TopicOnly
from gantrymq.runtime.clock import SystemClock
from tests.backup.scene import Scene
from tests.broker.replication.test_pair import log_of, replica_of
from tests.support.brokers import Cluster, cluster, until

FILES: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 18, "mapped_file_size_consume_queue": 20 * 100}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def bodies(broker: Cluster, topic: str, queue_id: int = 0) -> list[bytes]:
    """All messages that are in a queue."""
    store = broker.broker.store
    first, end = store.queue_range(topic, queue_id)
    entries = [store.entry(topic, queue_id, offset) for offset in range(first, end)]
    messages = [store.read(entry.log_offset) for entry in entries if entry is not None]
    return [message.body for message in messages if message is not None]


async def take(scene: Scene, broker: Cluster) -> None:
    broker.broker.offsets.save()
    await asyncio.to_thread(scene.take)


def test_topics_groups_users_and_offsets_come_back(scene: Scene) -> None:
    async def work() -> None:
        async with cluster(scene.store, **FILES) as broker:
            users = scene.store / "config" / "auth" / "users.json"
            users.parent.mkdir()
            users.write_text('{"users":[],"acls":[]}')
            users.chmod(0o600)
            await broker.create_topic("orders", queues=3, attributes="+message.type=FIFO")
            for number in range(20):
                await broker.sent("orders", b"%d" % number)
            broker.broker.offsets.commit("CG", "orders", 0, 7)
            await take(scene, broker)
            before = broker.broker.topics.get("orders")
        scene.restore()
        restored = scene.root / "restored" / "config" / "auth" / "users.json"
        assert restored.read_bytes() == users.read_bytes()
        assert stat.S_IMODE(restored.stat().st_mode) == 0o600
        assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in (scene.backups / "tables").iterdir())
        async with cluster(scene.root / "restored", **FILES) as broker:
            assert broker.broker.topics.get("orders") == before
            assert broker.broker.offsets.get("CG", "orders", 0) == 7
            assert await bodies(broker, "orders") == [b"%d" % number for number in range(20)]
            assert (await broker.sent("orders", b"next")).queue_offset == 20

    asyncio.run(work())


@pytest.mark.slow
def test_a_queue_whose_messages_were_deleted_goes_on_with_its_numbers(scene: Scene) -> None:
    """Else a group at offset 30 would miss the first 30 new messages."""

    async def work() -> None:
        async with cluster(scene.store, **FILES) as broker:
            await broker.create_topic("old", queues=2)
            await broker.create_topic("new", queues=1)
            for number in range(30):
                await broker.sent("old", b"%d" % number)
            await broker.sent("old", b"other queue", queue_id=1)
            for _ in range(40):
                await broker.sent("new", bytes(20_000))
            broker.broker.offsets.commit("CG", "old", 0, 30)
            await broker.sent("old", b"still there", queue_id=1)
            store = broker.broker.store
            await until(lambda: store.flushed == store.appended)
            # The derived writer puts entries into the files of queues within a second or so.
            await until(lambda: (scene.store / "consumequeue" / "old" / "0").exists())
            assert store.delete_expired(SystemClock().wall_ms() + 10**9, 0, store.appended)
            assert store.min_log_offset > 30 * 100
            await take(scene, broker)
            begin = store.min_log_offset
        restored = scene.restore()
        assert restored.lowered == 0
        async with cluster(scene.root / "restored", **FILES) as broker:
            assert broker.broker.store.min_log_offset == begin
            assert broker.broker.store.queue_range("old", 0) == (30, 30)
            assert broker.broker.store.queue_range("old", 1) == (1, 2)
            assert broker.broker.offsets.get("CG", "old", 0) == 30
            assert (await broker.sent("old", b"next")).queue_offset == 30
            assert (await broker.sent("old", b"next", queue_id=1)).queue_offset == 2
            assert (await broker.pull("old", 0, 30)).body.count(b"next") == 1

    asyncio.run(work())


def test_the_state_before_an_accident(scene: Scene) -> None:
    """A topic is made and another one deleted between two backups: the time before the deletion has both."""

    async def work() -> None:
        clock = SystemClock()
        async with cluster(scene.store, **FILES) as broker:
            await broker.create_topic("orders", queues=1)
            await broker.sent("orders", b"first")
            broker.broker.offsets.commit("CG", "orders", 0, 1)
            await take(scene, broker)
            await asyncio.sleep(0.01)
            await broker.create_topic("later", queues=1, attributes="+message.type=FIFO")
            await broker.sent("orders", b"second")
            await broker.sent("later", b"third")
            broker.broker.offsets.commit("CG", "orders", 0, 2)
            at_ms = clock.wall_ms()
            await asyncio.sleep(0.01)
            answer = await broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic="orders"))
            assert answer.code == ResponseCode.SUCCESS
            await broker.create_topic("orders", queues=1)
            await broker.sent("orders", b"too late")
            await take(scene, broker)
        made = scene.restore(at_ms=at_ms)
        assert made.records == 3
        async with cluster(scene.root / "restored", **FILES) as broker:
            assert await bodies(broker, "orders") == [b"first", b"second"]
            assert await bodies(broker, "later") == [b"third"]
            later = broker.broker.topics.get("later")
            assert later is not None and later.attributes == {"message.type": "FIFO"}
            assert broker.broker.offsets.get("CG", "orders", 0) == 1, "the second message comes again"
        scene.restore("newest")
        async with cluster(scene.root / "newest", **FILES) as broker:
            assert await bodies(broker, "orders") == [b"too late"]
            assert await bodies(broker, "later") == [b"third"]

    asyncio.run(work())


def test_a_replica_is_seeded_and_follows_from_there(scene: Scene) -> None:
    async def work() -> None:
        port = free_port()
        async with cluster(scene.store, with_name_server=True, ha_listen_port=port, **FILES) as primary:
            await primary.create_topic("orders", queues=1)
            for number in range(40):
                await primary.sent("orders", b"%d" % number + bytes(20_000))
            await take(scene, primary)
            end = scene.restore().end
            for number in range(40):
                await primary.sent("orders", b"%d more" % number)
            async with replica_of(primary, scene.root / "restored", **FILES) as replica:
                assert replica.store.written >= end > 2 << 18
                await until(lambda: replica.store.written == primary.broker.store.written)
                assert log_of(replica) == log_of(primary.broker)
                assert replica.store.min_log_offset == primary.broker.store.min_log_offset == 0

    asyncio.run(asyncio.wait_for(work(), 60))
