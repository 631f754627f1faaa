"""A full disk, from the first refused message until messages are taken again, on a simulated disk."""

from __future__ import annotations

import pytest

from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import scan
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.room import Level
from tests.support.brokers import Cluster, cluster, on_broker
from tests.support.places import run

MIB = 1 << 20
COMMIT, ROLLBACK = 8, 12
LOG_FILE = 64 * 1024
SMALL = {
    "mapped_file_size_commit_log": LOG_FILE, "disk_space_reserve": 256 * 1024, "disk_space_warning_level_ratio": 90,
    "delete_when": "", "transaction_time_out": 600_000,
}  # fmt: skip


async def half(c: Cluster, key: str, size: int = 100) -> SendMessageAnswer:
    return await c.sent("T", key.encode() * size, f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01{key}\x02")


async def end(c: Cluster, sent: SendMessageAnswer, key: str, resolution: int) -> Command:
    header = EndTransaction(
        producer_group="PG", tran_state_table_offset=sent.queue_offset,
        commit_log_offset=parse_offset_message_id(sent.msg_id)[1], commit_or_rollback=resolution,
        from_transaction_check=False, msg_id=key, transaction_id=key,
    )  # fmt: skip
    return await c.ask(RequestCode.END_TRANSACTION, header)


def small_disk() -> SimDisk:
    disk = SimDisk()
    disk.total_bytes = disk.free_bytes = 4 * MIB
    return disk


async def fill(c: Cluster) -> Command:
    """Send until it is refused; the refusal."""
    for _ in range(3000):
        answer = await c.send("T", b"x" * 4000)
        if answer.code != ResponseCode.SUCCESS:
            return answer
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("by", ["own messages", "another program"])
def test_a_full_disk_is_left(by: str) -> None:
    """Halves lie in the oldest file; they are decided, the file goes, and messages are taken again."""
    disk = small_disk()

    async def work(c: Cluster) -> None:
        await c.create_topic("T", queues=1)
        halves = {key: await half(c, key) for key in ("a", "b", "c")}
        if by == "another program":
            for _ in range(60):
                await c.sent("T", b"x" * 4000)
            disk.free_bytes = 0
            c.broker.store.room.look()
            refused = await c.send("T", b"new")
        else:
            refused = await fill(c)
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "disk is full" in (refused.remark or "") and "gantry transactions list" in (refused.remark or "")
        again = await c.send("T", b"h", "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01d\x02")
        assert again.code == ResponseCode.SERVICE_NOT_AVAILABLE, "half messages are new, too"
        c.broker._retention.run()
        assert c.broker.store.min_log_offset == 0, "open halves keep their file"
        for key, resolution in (("a", COMMIT), ("b", ROLLBACK), ("c", COMMIT)):
            answer = await end(c, halves[key], key, resolution)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        c.broker.offsets.commit("G", "T", 0, 5)
        c.broker.offsets.save()
        c.broker._retention.run()
        assert c.broker.store.min_log_offset > 0
        if by == "another program":
            disk.free_bytes = 2 * MIB  # what it held is gone
        c.broker.store.room.look()
        sent = await c.send("T", b"after")
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        assert c.broker.store.room.reserve.size >= c.broker.store.room.reserve.base, "the reserve is there again"
        first, last = c.broker.store.queue_range("T", 0)
        found = [
            message.body for at in range(max(first, last - 8), last)
            for message in scan((await c.pull("T", offset=at)).body)
        ]  # fmt: skip
        assert b"a" * 100 in found and b"c" * 100 in found and b"b" * 100 not in found and b"after" in found

    on_broker(work, "/store", disk=disk, **SMALL)


def test_every_open_transaction_can_be_committed_however_many_there_are() -> None:
    """Halves alone fill the disk: room for their commits is kept from each of them when it is taken in."""
    disk = small_disk()

    async def work(c: Cluster) -> None:
        await c.create_topic("T", queues=1)
        halves: dict[str, SendMessageAnswer] = {}
        while True:
            key = f"k{len(halves)}"
            answer = await c.send(
                "T", key.encode() * 1500, f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01{key}\x02"
            )
            if answer.code != ResponseCode.SUCCESS:
                break
            halves[key] = answer.header(SendMessageAnswer)
        assert len(halves) > 100
        disk.free_bytes = 0  # and another program takes what was free
        for key, sent in halves.items():
            answer = await end(c, sent, key, COMMIT)
            assert answer.code == ResponseCode.SUCCESS, (key, len(halves), answer.remark)
        assert c.broker.store.queue_range("T", 0)[1] == len(halves)

    on_broker(work, "/store", disk=disk, **SMALL)


def test_rollbacks_go_on_when_commits_do_not() -> None:
    disk = small_disk()

    async def work(c: Cluster) -> None:
        await c.create_topic("T", queues=1)
        halves = {key: await half(c, key) for key in ("a", "b")}
        room = c.broker.store.room
        disk.free_bytes = 0
        while room.reserve.size > room.reserve.base // 5:
            room.reserve.release(1)
            disk.free_bytes = 0  # taken by another program as soon as it is given back
        room.look()
        refused = await end(c, halves["a"], "a", COMMIT)
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE and "rollbacks only" in (refused.remark or "")
        assert (await end(c, halves["b"], "b", ROLLBACK)).code == ResponseCode.SUCCESS
        disk.free_bytes = 2 * MIB
        room.look()
        assert (await end(c, halves["a"], "a", COMMIT)).code == ResponseCode.SUCCESS

    on_broker(work, "/store", disk=disk, **SMALL)


def test_a_broker_starts_on_a_full_disk_and_its_transactions_are_decided() -> None:
    disk = small_disk()

    async def before() -> SendMessageAnswer:
        async with cluster("/store", disk=disk, **SMALL) as c:  # type: ignore[arg-type]
            await c.create_topic("T", queues=1)
            sent = await half(c, "a")
            await fill(c)
            disk.free_bytes = 0
            return sent

    async def after(sent: SendMessageAnswer) -> None:
        async with cluster("/store", disk=disk, **SMALL) as c:  # type: ignore[arg-type]
            assert (await c.send("T", b"new")).code == ResponseCode.SERVICE_NOT_AVAILABLE
            answer = await end(c, sent, "a", COMMIT)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            c.broker._retention.run()
            assert c.broker.store.min_log_offset > 0

    run(after(run(before())))


def test_copies_are_refused_before_decisions() -> None:
    """What a consumer sends back waits at the consumer; it is worth less than a decision."""
    disk = small_disk()

    async def work(c: Cluster) -> None:
        await c.create_topic("T", queues=1)
        room, sent, open_half = c.broker.store.room, await c.sent("T", b"m"), await half(c, "a")
        place = parse_offset_message_id(sent.msg_id)[1]

        async def send_back() -> int:
            header = SendBack(offset=place, group="CG", delay_level=0, max_reconsume_times=16)
            return (await c.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code

        disk.free_bytes = 0
        room.look()
        assert room.level is Level.NO_MESSAGES and await send_back() == ResponseCode.SUCCESS
        while room.reserve.size > room.reserve.base // 3:
            room.reserve.release(1)
            disk.free_bytes = 0  # taken by another program as soon as it is given back
        room.look()
        assert room.level is Level.NO_COPIES and await send_back() != ResponseCode.SUCCESS
        assert (await end(c, open_half, "a", COMMIT)).code == ResponseCode.SUCCESS

    on_broker(work, "/store", disk=disk, **SMALL)
