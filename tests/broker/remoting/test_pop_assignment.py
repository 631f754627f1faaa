"""Who reads which queue in which way, over real sockets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gantrymq.message.heartbeat import ConsumerData, MessageModel, SubscriptionData
from gantrymq.message.pop import RequestMode
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.bodies.pop import QueryAssignment, QueryAssignmentAnswer
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.request_modes import GroupRequestMode, RequestModeTable
from tests.support.brokers import Cluster, on_broker


async def join(c: Cluster, client_id: str = "c1") -> None:
    data = ConsumerData(group_name="CG", subscription_data_set=[SubscriptionData.of_tags("T", "*", 1)])
    await c.ask(RequestCode.HEART_BEAT, body=HeartbeatData(client_id=client_id, consumer_data_set=[data]).encode())


async def queues(c: Cluster, **fields: object) -> tuple[set[RequestMode], list[MessageQueue]] | None:
    wanted = QueryAssignment(**{"topic": "T", "consumer_group": "CG", "client_id": "c1", **fields})  # type: ignore[arg-type]
    answer = await c.ask(RequestCode.QUERY_ASSIGNMENT, body=wanted.encode())
    assert answer.code == ResponseCode.SUCCESS
    found = QueryAssignmentAnswer.decode(answer.body).message_queue_assignments
    if found is None:
        return None
    return {item.mode for item in found}, sorted(item.message_queue for item in found)


async def set_mode(c: Cluster, topic: str = "T", group: str = "CG", mode: str = "POP") -> int:
    body = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": 0}
    return (await c.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=json.dumps(body).encode())).code


@pytest.mark.parametrize("with_name_server", [False, True])
def test_queues_are_shared_out_and_popped_together(tmp_path: Path, with_name_server: bool) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", 3)
        assert await queues(c) is None, "the group is not connected"
        await join(c)
        all_queues = [MessageQueue("T", "broker-a", number) for number in range(3)]
        assert await queues(c) == ({RequestMode.PULL}, all_queues)
        assert await queues(c, message_model=MessageModel.BROADCASTING) == ({RequestMode.PULL}, all_queues)
        assert await queues(c, strategy_name="MINE") is None
        assert await queues(c, topic="Nowhere") is None
        assert await set_mode(c) == ResponseCode.SUCCESS
        assert await queues(c) == ({RequestMode.POP}, [MessageQueue("T", "broker-a", -1)])

    on_broker(work, tmp_path, with_name_server=with_name_server)


def test_the_mode_outlives_a_restart(tmp_path: Path) -> None:
    async def before(c: Cluster) -> None:
        await c.create_topic("T")
        assert await set_mode(c) == ResponseCode.SUCCESS

    async def after(c: Cluster) -> None:
        answer = await c.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        mode = GroupRequestMode(topic="T", consumer_group="CG", mode=RequestMode.POP)
        assert RequestModeTable.decode(answer.body).message_request_mode_map == {"T": {"CG": mode}}
        await join(c)
        assert await queues(c) == ({RequestMode.POP}, [MessageQueue("T", "broker-a", -1)])

    on_broker(before, tmp_path)
    assert json.loads((tmp_path / "config" / "messageRequestMode.json").read_text()) == {
        "messageRequestModeMap": {
            "T": {"CG": {"consumerGroup": "CG", "mode": "POP", "popShareQueueNum": 0, "topic": "T"}}
        }
    }
    on_broker(after, tmp_path)


def test_a_default_mode(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        await join(c)
        assert await queues(c) == ({RequestMode.POP}, [MessageQueue("T", "broker-a", -1)])
        retry = await queues(c, topic="%RETRY%CG")
        assert retry is not None
        assert retry[0] == {RequestMode.PULL}

    on_broker(work, tmp_path, default_message_request_mode="POP")


def test_refused_modes(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        assert await set_mode(c, topic="%RETRY%CG") == ResponseCode.NO_PERMISSION
        assert await set_mode(c, topic="Nowhere") == ResponseCode.TOPIC_NOT_EXIST
        assert await set_mode(c, group="no group!") == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    on_broker(work, tmp_path)
