"""Topics and groups as tools make and remove them, over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.bodies.topics import KVTable
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.files.groups import Group, GroupTable
from gantrymq.protocol.files.topics import TopicConfig, TopicTable
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.protocol.headers.topics import DeleteGroup, GroupOnly, TopicOnly
from tests.support.brokers import TIMEOUT_MS, Cluster, cluster, on_broker
from tests.support.places import run


async def route(c: Cluster, topic: str) -> Command:
    assert c.name_server is not None
    return await c.client.call(
        c.name_server.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic=topic), timeout_ms=TIMEOUT_MS
    )


def test_a_new_topic_is_known_to_the_name_server_when_it_is_answered(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        assert (await c.create_topic("T", 3, "+message.type=TRANSACTION")).code == ResponseCode.SUCCESS
        found = TopicRoute.decode((await route(c, "T")).body)
        assert [(queue.read_queue_nums, queue.perm) for queue in found.queue_datas] == [(3, 6)]
        assert found.broker_datas[0].master == c.broker.address
        config = TopicConfig.decode((await c.ask(RequestCode.GET_TOPIC_CONFIG, TopicOnly(topic="T"))).body)
        assert config.attributes == {"message.type": "TRANSACTION"}
        table = TopicTable.decode((await c.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
        assert table.topic_config_table["T"].write_queue_nums == 3
        assert (await c.create_topic("T", 5, "-message.type")).code == ResponseCode.SUCCESS
        altered = c.broker.topics.get("T")
        assert altered is not None and (altered.write_queue_nums, altered.attributes) == (5, {})
        found = TopicRoute.decode((await route(c, "T")).body)
        assert found.queue_datas[0].read_queue_nums == 5

    on_broker(work, tmp_path, with_name_server=True)


def test_the_same_topic_again_does_not_change_the_data_version(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        version = c.broker.topics.version
        assert (await c.create_topic("T")).code == ResponseCode.SUCCESS
        assert c.broker.topics.version == version

    on_broker(work, tmp_path)


@pytest.mark.parametrize(
    ("topic", "queues", "attributes", "perm"),
    [
        ("bad name", 4, None, 6),
        ("SCHEDULE_TOPIC_XXXX", 4, None, 6),
        ("TBW102", 4, None, 6),
        ("T", 0, None, 6),
        ("T", 100_000, None, 6),
        ("T", 4, "+message.type=NONSENSE", 6),
        ("T", 4, "message.type", 6),
        ("T", 4, None, 9),
    ],
)
def test_topics_that_cannot_be(tmp_path: Path, topic: str, queues: int, attributes: str | None, perm: int) -> None:
    async def work(c: Cluster) -> None:
        before = c.broker.topics.get(topic)
        answer = await c.create_topic(topic, queues, attributes, perm)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert answer.remark
        assert c.broker.topics.get(topic) == before

    on_broker(work, tmp_path)


def test_a_topic_is_removed_with_its_offsets(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        c.broker.offsets.commit("CG", "T", 0, 5)
        assert (await c.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic="T"))).code == ResponseCode.SUCCESS
        missing = await c.ask(RequestCode.GET_TOPIC_CONFIG, TopicOnly(topic="T"))
        assert missing.code == ResponseCode.TOPIC_NOT_EXIST, "mqadmin needs 0 or 17"
        assert c.broker.offsets.get("CG", "T", 0) is None
        again = await c.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic="T"))
        assert again.code == ResponseCode.SUCCESS
        system = await c.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic="RMQ_SYS_TRANS_HALF_TOPIC"))
        assert system.code == ResponseCode.INVALID_PARAMETER

    on_broker(work, tmp_path)


def test_topics_and_groups_survive_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path) as c:
            await c.create_topic("T", 3, "+message.type=TRANSACTION")
            group = Group(group_name="G", retry_max_times=2)
            done = await c.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
            assert done.code == ResponseCode.SUCCESS
            kept = c.broker.topics.get("T")
        async with cluster(tmp_path) as c:
            assert c.broker.topics.get("T") == kept
            answer = await c.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupOnly(group="G"))
            assert Group.decode(answer.body) == group
            groups = GroupTable.decode((await c.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
            assert "TOOLS_CONSUMER" in groups.subscription_group_table
            c.broker.offsets.commit("G", "T", 0, 1)
            gone = DeleteGroup(group_name="G", clean_offset=True)
            assert (await c.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, gone)).code == ResponseCode.SUCCESS
            assert c.broker.offsets.get("G", "T", 0) is None
            missing = await c.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupOnly(group="G"))
            assert missing.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            bad = await c.ask(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=Group(group_name="no good!").encode()
            )
            assert bad.code == ResponseCode.INVALID_PARAMETER

    run(work())


def test_figures_of_the_broker(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T")
        table = KVTable.decode((await c.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert int(table["commitLogMaxOffset"]) > 0
        assert 0 <= float(table["commitLogDiskRatio"]) <= 1
        assert table["getTransferedTps"] == table["getTransferredTps"], "4.9 and 5.x spell it differently"

    on_broker(work, tmp_path)
