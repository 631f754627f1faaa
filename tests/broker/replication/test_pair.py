"""A primary and a replica over real sockets: the log is equal, and answers say what is copied."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.admin import Admin
from gantrymq.broker.broker import Broker
from gantrymq.broker.replication.frames import FrameReader, encode_report
from gantrymq.broker.roles import Role
from gantrymq.cli.replicas import copy_state, in_sets
from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError
from gantrymq.protocol.codes import ResponseCode
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.support.brokers import Cluster, broker_config, cluster, until

HA = {"broker_role": "SYNC_MASTER", "slave_timeout": 60_000, "flush_disk_type": "SYNC_FLUSH"}


@contextlib.asynccontextmanager
async def replica_of(primary: Cluster, root: Path, **settings: object) -> AsyncIterator[Broker]:
    """A replica that knows its primary from the name server."""
    values: dict[str, object] = {"broker_role": "SLAVE", "broker_id": 1, "flush_disk_type": "SYNC_FLUSH"}
    if primary.name_server is not None:
        values["namesrv_addr"] = primary.name_server.address
    broker = Broker(
        broker_config(root, **{**values, **settings}), TcpNetwork(), SystemClock(), SystemRng(), OsDisk()
    )  # fmt: skip
    await broker.start()
    try:
        yield broker
    finally:
        await broker.close()


def log_of(broker: Broker) -> bytes:
    return broker.store.read_raw(broker.store.min_log_offset, broker.store.written)


def test_a_replica_has_the_same_bytes_topics_groups_and_offsets(tmp_path: Path) -> None:
    async def work() -> None:
        files = {"mapped_file_size_commit_log": 1 << 20}  # the log has several
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port(), **files) as primary:
            await primary.create_topic("orders", queues=1)
            for number in range(50):
                await primary.sent("orders", b"%d" % number)
            async with replica_of(primary, tmp_path / "b", **files) as replica:
                for number in range(120):
                    await primary.sent("orders", b"x" * 30_000 + b"%d" % number)
                primary.broker.offsets.commit("CG", "orders", 0, 7)
                await until(lambda: replica.store.written == primary.broker.store.written)
                assert log_of(replica) == log_of(primary.broker)
                await until(lambda: replica.offsets.get("CG", "orders", 0) == 7)
                assert replica.topics.get("orders") == primary.broker.topics.get("orders")
                reader = Cluster(replica, primary.client)
                assert (await reader.pull("orders")).code == ResponseCode.SUCCESS
                assert (await reader.send("orders")).code == ResponseCode.SYSTEM_BUSY

    asyncio.run(work())


def test_a_synchronous_primary_answers_when_the_replica_has_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port(), **HA) as primary:
            await primary.create_topic("orders", queues=1)
            assert (await primary.send("orders", b"0")).code == ResponseCode.SLAVE_NOT_AVAILABLE
            assert (await primary.pull("orders")).code == ResponseCode.PULL_NOT_FOUND, "nobody has a copy"
            async with replica_of(primary, tmp_path / "b") as replica:
                await until(lambda: primary.broker.store.safety.position == primary.broker.store.written)
                for number in range(20):
                    answer = await primary.send("orders", b"%d" % number)
                    assert answer.code == ResponseCode.SUCCESS, answer.remark
                    assert replica.store.flushed == primary.broker.store.written, "and on its disk"
                assert (await primary.pull("orders")).code == ResponseCode.SUCCESS
            await until(lambda: not primary.broker._copies.available)
            assert (await primary.send("orders", b"last")).code == ResponseCode.SLAVE_NOT_AVAILABLE

    asyncio.run(work())


def test_a_replica_that_comes_back_goes_on_where_its_log_ends(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary:
            await primary.create_topic("orders", queues=1)
            for turn in range(3):
                async with replica_of(primary, tmp_path / "b") as replica:
                    await primary.sent("orders", b"%d" % turn)
                    await until(lambda: replica.store.written == primary.broker.store.written)
                await primary.sent("orders", b"while it is away")
            async with replica_of(primary, tmp_path / "b") as replica:
                await until(lambda: log_of(replica) == log_of(primary.broker))

    asyncio.run(work())


def test_a_promoted_replica_goes_on_with_open_and_decided_transactions(tmp_path: Path) -> None:
    """By ``become``, as a restart with another brokerRole does it: what was decided is not asked again."""

    async def work() -> None:
        port = free_port()
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=port, **HA) as primary:
            await primary.create_topic("orders", queues=1)
            async with replica_of(primary, tmp_path / "b") as replica:
                await until(lambda: primary.broker._copies.available)
                await primary.sent("orders", b"before")
                await until(lambda: replica.topics.get("orders") is not None)
                end = primary.broker.store.written
                await primary.broker.become(Role.REPLICA)
                await until(lambda: replica.store.written == end)
                await replica.become(Role.PRIMARY)
                promoted = Cluster(replica, primary.client)
                assert (await promoted.sent("orders", b"after")).queue_offset == 1
                assert replica.store.appended > end

    asyncio.run(work())


def test_a_promoted_replica_has_each_topic_that_the_log_names(tmp_path: Path) -> None:
    """Also when the tables never came, and after a restart in another role."""

    async def work() -> None:
        port = free_port()
        half = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01k1\x02"
        async with cluster(tmp_path / "a", ha_listen_port=port) as primary:
            await primary.create_topic("orders", queues=3)
            await primary.create_topic("points", queues=2)
            await primary.sent("orders", queue_id=2)
            await primary.sent("points", properties=half, queue_id=1)
            for topic, wait in (("later", "DELAY\x0118\x02"), ("at", "TIMER_DELAY_SEC\x013600\x02")):
                await primary.create_topic(topic, queues=2)
                await primary.sent(topic, properties=wait, queue_id=1)
            async with replica_of(primary, tmp_path / "b", ha_master_address=f"127.0.0.1:{port}") as replica:
                await until(lambda: replica.store.written == primary.broker.store.written)
                assert replica.topics.get("orders") is None
        async with cluster(tmp_path / "b") as promoted:
            topics = promoted.broker.topics
            found = {name: topics.get(name) for name in ("orders", "points", "later", "at")}
            assert {name: topic and topic.write_queue_nums for name, topic in found.items()} == {
                "orders": 3,
                "points": 2,
                "later": 2,
                "at": 2,
            }
            topics.delete("points")
        async with cluster(tmp_path / "b") as later:
            assert later.broker.topics.get("points") is None, "the log is its own now"

    asyncio.run(work())


def test_a_log_that_was_written_elsewhere_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "b") as other:
            await other.create_topic("orders", queues=1)
            await other.sent("orders", b"another history")
            before = log_of(other.broker)
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary:
            await primary.create_topic("orders", queues=1)
            for _ in range(5):
                await primary.sent("orders", b"this history")
            async with replica_of(primary, tmp_path / "b") as replica:
                await until(lambda: "were written by two brokers" in caplog.text)
                assert log_of(replica) == before

    asyncio.run(work())


def test_a_replica_whose_log_is_longer_is_refused_and_keeps_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "b") as other:
            await other.create_topic("orders", queues=1)
            for _ in range(5):
                await other.sent("orders", b"another history")
            before = log_of(other.broker)
        async with (
            cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary,
            replica_of(primary, tmp_path / "b") as replica,
        ):
            await until(lambda: "were written by two brokers" in caplog.text)
            assert "records that are not here" in caplog.text, "the primary says it, too"
            assert log_of(replica) == before

    asyncio.run(work())


def kept(root: Path) -> list[dict[str, object]]:
    """What the listing of the one surplus says."""
    (listing,) = (root / "gantry" / "surplus").glob("*.json")
    assert listing.with_suffix(".log").stat().st_size > 0
    return [json.loads(line) for line in listing.read_text().splitlines()]


@pytest.mark.parametrize("count", [1, 400])
def test_an_old_primary_comes_back_and_what_only_it_has_is_kept_in_files(tmp_path: Path, count: int) -> None:
    """``count``: of messages that only the old primary has. Many: the last common record is far from the end."""
    half = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01k1\x02"

    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as old:
            await old.create_topic("orders", queues=1)
            await old.sent("orders", b"both have it")
            async with replica_of(old, tmp_path / "b") as replica:
                await until(lambda: replica.store.written == old.broker.store.written)
                common = replica.store.written
            for _ in range(count):
                await old.sent("orders", b"x" * 1000)
            await old.sent("orders", b"half", properties=half)
        async with cluster(tmp_path / "b", with_name_server=True, ha_listen_port=free_port()) as new:
            for number in range(count + 5):
                await new.sent("orders", b"%d" % number)
            async with replica_of(new, tmp_path / "a") as back:
                await until(lambda: log_of(back) == log_of(new.broker))
                lines = kept(tmp_path / "a")
                assert [line["kind"] for line in lines] == ["message"] * count + ["half message"]
                assert lines[0]["logOffset"] == common and lines[-1]["id"] == "k1"
                assert {line["topic"] for line in lines} == {"orders"}
                await until(lambda: back.store.max_log_offset == new.broker.store.written)
                reader = Cluster(back, new.client)
                pulled = await reader.pull("orders", offset=1)
                assert pulled.code == ResponseCode.SUCCESS and b"xxx" not in pulled.body
                await new.sent("orders", b"and on it goes")
                await until(lambda: log_of(back) == log_of(new.broker))

    asyncio.run(work())


def test_a_replica_whose_primary_has_lost_records_stands_still_until_it_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary:
            await primary.create_topic("orders", queues=1)
            await primary.sent("orders", b"first")
        shutil.copytree(tmp_path / "a", tmp_path / "earlier")
        async with (
            cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary,
            replica_of(primary, tmp_path / "b") as replica,
        ):
            await primary.sent("orders", b"second")
            await until(lambda: replica.store.written == primary.broker.store.written)
            before = log_of(replica)
        async with cluster(tmp_path / "earlier", with_name_server=True, ha_listen_port=free_port()) as primary:
            await primary.sent("orders", b"another second")
            async with replica_of(primary, tmp_path / "b") as replica:
                await until(lambda: "should be the primary" in caplog.text)
                assert log_of(replica) == before
            async with replica_of(primary, tmp_path / "b", ha_cut_surplus=True) as replica:
                await until(lambda: log_of(replica) == log_of(primary.broker))
                assert [line["kind"] for line in kept(tmp_path / "b")] == ["message"]

    asyncio.run(work())


def test_a_primary_that_leaves_its_role_gives_its_replicas_everything_first(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary:
            await primary.create_topic("orders", queues=1)
            async with replica_of(primary, tmp_path / "b") as replica:
                for _ in range(20):
                    await primary.sent("orders", b"x" * 100_000)
                await primary.broker.become(Role.REPLICA)
                assert log_of(replica) == log_of(primary.broker)

    asyncio.run(work())


def test_both_sides_say_how_far_the_copy_is(tmp_path: Path) -> None:
    """As ``gantry cluster replicas`` shows it."""

    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary:
            await primary.create_topic("orders", queues=1)
            assert primary.name_server is not None
            async with Admin(primary.name_server.address) as admin, replica_of(primary, tmp_path / "b") as replica:
                await primary.sent("orders", b"x")
                await until(lambda: replica.store.written == primary.broker.store.written)
                await until(lambda: not primary.broker.operations.administration.figures.replication().copies[0].gap)

                async def shown() -> list[dict[str, Any]]:
                    return in_sets([await copy_state(admin, place) for place in await admin.brokers.places()])

                rows = await shown()
                end = primary.broker.store.written
                assert [(row["role"], row["end"], row["behind"], row["state"]) for row in rows] == [
                    ("primary", end, None, "1 replica(s) connected"),
                    ("replica", end, 0, "follows"),
                ]
                status = await admin.brokers.replication(primary.broker.address)
                assert [copy.slave_ack_offset for copy in status.ha_connection_info] == [end]
                await primary.broker.close()
                await until(lambda: replica.operations.administration.figures.replication().following.problem != "")
                rows = await shown()
                assert rows[-1]["role"] == "replica" and "cannot follow" in rows[-1]["state"]

    asyncio.run(work())


def test_forged_reports_are_no_copies(tmp_path: Path) -> None:
    """Eight bytes on the HA port made Apache's primary answer SEND_OK without any replica."""

    async def work() -> None:
        port = free_port()
        async with cluster(tmp_path / "a", ha_listen_port=port, **{**HA, "slave_timeout": 300}) as primary:
            await primary.create_topic("orders", queues=1)
            for forged in (encode_report(1 << 40), encode_report(0) + encode_report(1 << 40)):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(forged)
                await writer.drain()
                answer = await primary.send("orders", b"x")
                assert answer.code in (ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE)
                with contextlib.suppress(ConnectionError):
                    await asyncio.wait_for(reader.read(), 10)  # it is ended
                writer.close()

    asyncio.run(work())


def test_no_frame_goes_over_the_end_of_a_file(tmp_path: Path) -> None:
    """Apache's slaves append a frame to one file, and never get over the end of it otherwise."""

    async def work() -> None:
        port, size = free_port(), 1 << 18
        async with cluster(tmp_path / "a", ha_listen_port=port, mapped_file_size_commit_log=size) as primary:
            await primary.create_topic("orders", queues=1)
            for _ in range(40):
                await primary.sent("orders", bytes(20_000))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            first = primary.broker.store.entry("orders", 0, 0)
            assert first is not None
            frames, place = FrameReader(), first.log_offset + first.size  # so that frames do not end there by chance
            writer.write(encode_report(place))
            while place < primary.broker.store.written:
                for frame in frames.feed(await reader.read(1 << 20)):
                    assert frame.place == place
                    place += len(frame.data)
                    assert place <= frame.place - frame.place % size + size, "it goes over the end of a file"
            assert place > 3 * size
            writer.close()

    asyncio.run(asyncio.wait_for(work(), 30))


def test_only_named_addresses_may_follow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        port = free_port()
        async with cluster(tmp_path / "a", ha_listen_port=port, ha_allowed_addresses="10.1.2.3"):
            reader, _writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            await until(lambda: "haAllowedAddresses does not name" in caplog.text)

    asyncio.run(work())


def test_the_limit_of_connections_counts_those_of_replicas(tmp_path: Path) -> None:
    async def work() -> None:
        port = free_port()
        async with cluster(tmp_path / "a", ha_listen_port=port, max_connections_per_host=5) as primary:
            writers = []
            for _ in range(8):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(encode_report(0))
                writers.append(writer)
            limits = primary.broker.client_limits
            await until(lambda: limits.refused(Reason.CONNECTIONS) > 0)
            for writer in writers:
                writer.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"broker_role": "SYNC_MASTER"}, "set haListenPort"),
        ({"broker_role": "SLAVE"}, "another one, as brokerId=1"),
        ({"broker_id": 1}, "a primary has brokerId=0"),
        ({"broker_role": "MASTER"}, "write one of ASYNC_MASTER"),
        ({"in_sync_replicas": 0}, "counts the primary"),
        ({"ha_allowed_addresses": "db.example.com"}, "write IP addresses"),
        ({"ha_master_address": "10.0.0.1"}, "write host:port"),
    ],
)
def test_settings_that_cannot_work_are_named(tmp_path: Path, settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        broker_config(tmp_path, **settings)
