"""The whole broker: bad input, full disks, failed syncs, restarts, registration."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from pathlib import Path

import pytest

from gantrymq.broker.broker import Broker
from gantrymq.broker.remoting.unsupported import refused_codes
from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError, StoreFormatUnknown, StoreLocked, Unreachable
from gantrymq.message import system_topics
from gantrymq.message.message import Message
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.bodies.topics import TopicConfigList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, decode_command, encode_request
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import File, OsDisk, read_whole
from gantrymq.runtime.network import HIGH_WATER_BYTES, TcpNetwork
from gantrymq.runtime.os_files import refusal
from gantrymq.runtime.rng import SystemRng
from gantrymq.simulation.world.disk import SimDisk
from tests.support.brokers import (
    TIMEOUT_MS,
    Cluster,
    broker_config,
    cluster,
    new_client,
    on_broker,
    pull_header,
    send_header,
    until,
)
from tests.support.doors import remoting
from tests.support.places import run


def new_broker(root: Path | str, **settings: object) -> Broker:
    return Broker(broker_config(root, **settings), TcpNetwork(), SystemClock(), SystemRng(), OsDisk())


async def answered(c: Cluster, data: bytes) -> bytes:
    """What comes back for raw bytes until the other side closes or is silent."""
    reader, writer = await asyncio.open_connection(*split_address(c.broker.address))
    writer.write(data)
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except TimeoutError:
        return b"silence"
    finally:
        writer.close()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00" * 64,
        b"\xff" * 64,
        struct.pack(">II", 17 * 1024 * 1024, 20) + b"x" * 20,
        struct.pack(">II", 24, 20) + b"{not json, is it?}  ",
        struct.pack(">II", 24, 7 << 24 | 20) + b"x" * 20,
    ],
)
def test_garbage_ends_its_connection_and_nothing_else(tmp_path: Path, data: bytes) -> None:
    async def work(c: Cluster) -> None:
        assert await answered(c, data) == b""
        assert (await c.send("T")).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path)


def test_unknown_codes_and_missing_fields_are_answered(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        unknown = await c.ask(31337)
        assert (unknown.code, "31337" in (unknown.remark or "")) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, True)
        incomplete = await c.ask(RequestCode.SEND_MESSAGE_V2, body=b"x")
        assert incomplete.code == ResponseCode.SYSTEM_ERROR
        assert incomplete.remark

    on_broker(work, tmp_path)


def test_a_port_in_use_a_locked_store_and_a_strange_one(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        port = split_address(c.broker.address)[1]
        with pytest.raises(Unreachable, match=str(port)):
            await new_broker(tmp_path / "other", listen_port=port).start()
        with pytest.raises(StoreLocked):
            await new_broker(tmp_path / "store").start()
        (tmp_path / "strange" / "commitlog").mkdir(parents=True)
        (tmp_path / "strange" / "commitlog" / "00000000000000000000").write_bytes(b"no log")
        with pytest.raises(StoreFormatUnknown):
            await new_broker(tmp_path / "strange").start()
        assert (await c.send("T")).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path / "store")


def test_a_start_that_failed_leaves_port_and_store_free(tmp_path: Path) -> None:
    async def work() -> None:
        port = free_port()
        async with cluster(tmp_path, listen_port=port):
            pass
        topics = tmp_path / "config" / "topics.json"
        content = topics.read_text()
        topics.write_text("{broken")
        with pytest.raises(ConfigError, match=r"topics\.json"):
            await new_broker(tmp_path, listen_port=port).start()
        assert topics.read_text() == "{broken"
        topics.write_text(content)
        async with cluster(tmp_path, listen_port=port) as c:
            assert (await c.send("T")).code == ResponseCode.SUCCESS

    run(work())


def test_a_full_disk_refuses_sends_says_so_and_goes_on_when_there_is_room() -> None:
    disk = SimDisk()

    async def work(c: Cluster) -> None:
        before = await c.sent("T", b"before")
        disk.free_bytes = 0
        refused = await c.send("T", b"x" * 5000)
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "space" in (refused.remark or "")
        assert [message.body for message in scan((await c.pull("T")).body)] == [b"before"], "reading goes on"
        disk.free_bytes = None

        async def taken() -> bool:
            return (await c.send("T", b"after")).code == ResponseCode.SUCCESS

        await until(taken)
        found = list(scan((await c.pull("T")).body))
        assert [message.body for message in found] == [b"before", b"after"], "nothing of the refused one is there"
        assert found[0].queue_offset == before.queue_offset == 0

    on_broker(work, "/store", disk=disk)


class RefusingDisk(SimDisk):
    """Refuses to open files in ``config`` as long as there is a reason."""

    def __init__(self) -> None:
        super().__init__()
        self.number: int | None = None

    def open(self, path: str, *, create: bool = False) -> File:
        if self.number is not None and "/config/" in path:
            raise refusal(OSError(self.number, os.strerror(self.number)), "to create", path)
        return super().open(path, create=create)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC, errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("way", ["made", "list", "sent", "half", "batch"])
def test_a_topic_that_cannot_be_noted_is_refused_with_what_to_do(
    way: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = RefusingDisk()

    async def attempt(c: Cluster, topic: str) -> Command:
        if way == "made":
            return await c.create_topic(topic)
        if way == "list":
            wanted = TopicConfigList(topic_config_list=[TopicConfig(topic_name=topic)])
            return await c.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=wanted.encode())
        if way == "batch":
            item = encode_batch([Message(topic, b"x")])
            return await c.send(topic, item, code=RequestCode.SEND_BATCH_MESSAGE, batch=True)
        return await c.send(topic, properties="TRAN_MSG\x01true\x02PGROUP\x01PG\x02" if way == "half" else "")

    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        disk.number = number
        refused = await attempt(c, "New")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert refused.remark is not None and "topics.json" in refused.remark and "; " in refused.remark
        assert not c.broker.topics.exists("New")
        assert (await c.send("T")).code == ResponseCode.SUCCESS, "topics that are there are served"
        disk.number = None
        assert b"New" not in read_whole(disk, "/store/config/topics.json")
        assert (await attempt(c, "New")).code == ResponseCode.SUCCESS
        assert "defect" not in caplog.text

    on_broker(work, "/store", disk=disk)


def test_a_full_disk_refuses_half_messages_too() -> None:
    disk = SimDisk()

    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        disk.free_bytes = 0
        refused = await c.send("T", b"x" * 5000, "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K\x02")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        by_itself = await c.send("U", b"x")
        assert by_itself.code == ResponseCode.SERVICE_NOT_AVAILABLE and not c.broker.topics.exists("U")
        assert (await c.create_topic("V")).code == ResponseCode.SUCCESS, "settings are written with the reserve"
        disk.free_bytes = None

    on_broker(work, "/store", disk=disk)


def test_after_a_failed_sync_nothing_is_acknowledged_any_more() -> None:
    disk = SimDisk()

    async def work(c: Cluster) -> None:
        await c.sent("T", b"safe")
        disk.fail_next_sync("commitlog")
        for _ in range(2):
            refused = await c.send("T", b"lost")
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "sync" in (refused.remark or "")
        assert [message.body for message in scan((await c.pull("T")).body)] == [b"safe"]

    on_broker(work, "/store", disk=disk)


def test_what_waits_for_the_disk_is_answered_before_the_broker_closes() -> None:
    async def work() -> None:
        disk = SimDisk()
        client = new_client()
        async with cluster("/store", disk=disk) as c:
            await c.create_topic("T")
            disk.hold_syncs = True
            address = c.broker.address
            waiting = [
                asyncio.ensure_future(
                    client.call(address, RequestCode.SEND_MESSAGE_V2, send_header("T"), b"x", timeout_ms=TIMEOUT_MS)
                )
                for _ in range(5)
            ]
            await until(lambda: disk.held > 0)
            asyncio.get_running_loop().call_later(0.05, _release, disk)
        assert {answer.code for answer in await asyncio.gather(*waiting)} == {ResponseCode.SUCCESS}
        await client.close()

    def _release(disk: SimDisk) -> None:
        disk.hold_syncs = False
        while disk.held:
            disk.release_sync()

    run(work())


@pytest.mark.parametrize("kind", ["plain", "half"])
def test_with_a_limit_a_sender_does_not_wait_for_a_disk_that_hangs(kind: str) -> None:
    """As at Apache's broker the message is stored, and consumers get it when the disk is back."""

    async def work() -> None:
        disk = SimDisk()
        async with cluster("/store", disk=disk, sync_flush_timeout=50) as c:
            await c.create_topic("T")
            disk.hold_syncs = True
            answer = await c.send("T", properties="TRAN_MSG\x01true\x02PGROUP\x01PG\x02" if kind == "half" else "")
            assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
            assert answer.header(SendMessageAnswer).queue_offset == 0, "it has a place"
            topic = "T" if kind == "plain" else system_topics.HALF
            assert c.broker.store.queue_range(topic, 0)[1] == 0, "and is not visible yet"
            disk.hold_syncs = False
            disk.release_sync()
            await until(lambda: c.broker.store.queue_range(topic, 0)[1] == 1)

    run(work())


async def known(name_server: NameServer, topic: str = "TBW102") -> bool:
    client = new_client()
    answer = await client.call(
        name_server.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic=topic), timeout_ms=TIMEOUT_MS
    )
    await client.close()
    return answer.code == ResponseCode.SUCCESS


async def name_server_on(port: int) -> NameServer:
    server = NameServer(
        NameServerConfig(listen_host="127.0.0.1", listen_port=port), TcpNetwork(), SystemClock(), OsDisk()
    )
    await server.start()
    return server


def test_a_broker_registers_before_it_is_ready_again_after_the_name_server_was_away_and_says_goodbye(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with asyncio.timeout(30):
            port = free_port()
            first = await name_server_on(port)
            async with cluster(tmp_path, namesrv_addr=first.address) as c:
                assert await known(first)
                await first.close()
                second = await name_server_on(port)
                await until(lambda: known(second))
                await c.sent("New")
                await until(lambda: known(second, "New"))
            assert not await known(second)
            await second.close()

    run(work())


def test_a_broker_serves_while_its_name_server_is_down(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(30):
            away = await name_server_on(0)
            await away.close()
            async with cluster(tmp_path, namesrv_addr=away.address) as c:
                await c.sent("T")
                assert (await c.create_topic("U")).code == ResponseCode.SUCCESS, "told when it can be, not refused"

    run(work())


def test_one_client_cannot_fill_the_memory_by_not_reading(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T", bytes(1 << 20))
        reader, writer = await asyncio.open_connection(*split_address(c.broker.address), limit=1)
        frame = encode_request(RequestCode.PULL_MESSAGE, 1, pull_header("T"))
        writer.write(frame * 200)
        await until(lambda: c.broker.client_limits.bytes.total > HIGH_WATER_BYTES)
        assert (await c.pull("T")).code == ResponseCode.SUCCESS, "others are served"
        assert c.broker.client_limits.bytes.total < HIGH_WATER_BYTES + (2 << 20), "the other answers are not made yet"
        splitter, codes = FrameSplitter(), list[int]()
        while len(codes) < 200:
            codes += [decode_command(*parts).code for parts in splitter.feed(await reader.read(1 << 20))]
        assert set(codes) == {ResponseCode.SUCCESS}
        writer.close()

    on_broker(work, tmp_path)


def test_what_is_not_available_is_refused_with_the_reason(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.ask(906)
        assert (answer.code, "replicas" in (answer.remark or "")) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, True)
        for code, words in ((1003, "no controller"), (1009, "updateBrokerConfig"), (1010, "updateBrokerConfig"),
                            (1011, "leaves it by itself"), (1012, "brokerId"), (1013, "brokerId")):  # fmt: skip
            answer = await c.ask(code)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and words in (answer.remark or ""), code
        assert not {code for code, _ in refused_codes()} & remoting(c.broker).handlers.keys()

    on_broker(work, tmp_path)


def test_the_fast_port_serves_as_well(tmp_path: Path) -> None:
    """Clients with the "VIP channel" send to the port two below, without asking whether it is there."""
    main = free_port()
    fast = main - 2

    async def work(c: Cluster) -> None:
        answer = await c.client.call(
            f"127.0.0.1:{fast}", RequestCode.SEND_MESSAGE_V2, send_header("T"), b"x", timeout_ms=TIMEOUT_MS
        )
        assert answer.code == ResponseCode.SUCCESS
        assert (await c.pull("T")).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path, listen_port=main)


def test_a_taken_fast_port_keeps_no_broker_from_serving(tmp_path: Path) -> None:
    main = free_port()
    fast = main - 2

    async def work(c: Cluster) -> None:
        assert (await c.send("T")).code == ResponseCode.SUCCESS

    with socket.create_server(("127.0.0.1", fast)):
        on_broker(work, tmp_path, listen_port=main)


def test_the_name_server_knows_a_new_topic_when_its_first_message_is_answered(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for number in range(5):
            topic = f"New{number}"
            text = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02" if number == 4 else ""
            assert (await c.send(topic, properties=text)).code == ResponseCode.SUCCESS
            route = await c.client.call(
                c.broker._config.network.namesrv_addr, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic=topic),
                timeout_ms=TIMEOUT_MS,
            )  # fmt: skip
            assert route.code == ResponseCode.SUCCESS

    on_broker(work, tmp_path, with_name_server=True)
