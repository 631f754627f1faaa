"""Making room and deleting topics, over real sockets."""

from __future__ import annotations

from pathlib import Path

from gantrymq.message.system_topics import HALF, PARKED
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.tools import ResumeCheck
from gantrymq.protocol.headers.topics import TopicOnly
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.protocol.stored_message import pack_host
from gantrymq.transactions.table.decisions import Cause
from tests.support.brokers import Cluster, on_broker, until


def test_a_deleted_topic_begins_empty_when_it_is_made_again(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", 1)
        for _ in range(3):
            await c.sent("T")
        await c.pull("T")
        c.broker.offsets.commit("CG", "T", 0, 3)
        assert (await c.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic="T"))).code == ResponseCode.SUCCESS
        assert (await c.send("T", default_topic="none")).code == ResponseCode.TOPIC_NOT_EXIST
        await c.create_topic("T", 1)
        assert (await c.sent("T", b"new")).queue_offset == 0
        assert (c.broker.store.queue_range("T", 0), c.broker.offsets.get("CG", "T", 0)) == ((0, 1), None)
        assert b"new" in (await c.pull("T")).body

    on_broker(work, tmp_path)


def test_queues_without_a_topic_are_removed_when_asked(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T")
        await c.sent("Lost")
        c.broker.topics.delete("Lost")
        for code in (
            RequestCode.CLEAN_UNUSED_TOPIC,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
            RequestCode.DELETE_EXPIRED_COMMITLOG,
        ):
            assert (await c.ask(code)).code == ResponseCode.SUCCESS
        assert c.broker.store.topics() == {"T"}

    on_broker(work, tmp_path)


def test_the_log_has_a_directory_of_its_own(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T")
        assert (tmp_path / "log/00000000000000000000").exists()
        assert not (tmp_path / "store/commitlog").exists()
        assert f"commitLogDiskRatio_{tmp_path}/log" in (await c.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body.decode()

    on_broker(work, tmp_path / "store", store_path_commit_log=str(tmp_path / "log"))


def test_a_parked_half_is_resumed_once(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        coordinator, store = c.broker.coordinator, c.broker.store
        await c.create_topic("T", 1)
        await c.sent("T", b"undecided", "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K1\x02", sys_flag=4)
        half = coordinator.table.oldest()
        assert half is not None
        coordinator._endings.park(half, None, Cause.TOO_OLD)
        await until(lambda: coordinator.table.oldest() is None)
        entry = store.entry(PARKED, 0, 0)
        assert entry is not None
        parked = ResumeCheck(msg_id=offset_message_id(pack_host(c.broker.address), entry.log_offset))
        assert (await c.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, parked)).code == ResponseCode.SUCCESS
        resumed = coordinator.table.oldest()
        assert resumed is not None and (resumed.group, resumed.unique_key, resumed.real_topic) == ("PG", "K1", "T")
        assert store.queue_range(HALF, 0) == (0, 2)
        again = await c.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, parked)
        assert again.code == ResponseCode.SYSTEM_ERROR
        coordinator._endings.commit(resumed, 4)
        await until(lambda: store.queue_range("T", 0) == (0, 1))
        again = await c.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, parked)
        assert again.code == ResponseCode.SYSTEM_ERROR, "it would be delivered twice"
        elsewhere = ResumeCheck(msg_id=offset_message_id(pack_host(c.broker.address), resumed.log_offset))
        assert (await c.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, elsewhere)).code == ResponseCode.SYSTEM_ERROR

    on_broker(work, tmp_path)


def test_a_resumed_half_is_open_after_a_restart(tmp_path: Path) -> None:
    async def prepare(c: Cluster) -> None:
        await c.create_topic("T", 1)
        await c.sent("T", b"undecided", "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K1\x02", sys_flag=4)
        half = c.broker.coordinator.table.oldest()
        assert half is not None
        c.broker.coordinator._endings.park(half, None, Cause.TOO_OLD)
        await until(lambda: c.broker.coordinator.table.oldest() is None)
        entry = c.broker.store.entry(PARKED, 0, 0)
        assert entry is not None
        parked = ResumeCheck(msg_id=offset_message_id(pack_host(c.broker.address), entry.log_offset))
        assert (await c.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, parked)).code == ResponseCode.SUCCESS

    async def look(c: Cluster) -> None:
        half = c.broker.coordinator.table.oldest()
        assert half is not None and (half.queue_offset, half.unique_key, len(c.broker.coordinator.table)) == (
            1,
            "K1",
            1,
        )

    on_broker(prepare, tmp_path)
    on_broker(look, tmp_path)
