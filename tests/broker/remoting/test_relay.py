"""Questions that a client answers through the broker, over real sockets."""

from __future__ import annotations

from pathlib import Path

from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.progress import PositionsByClient, key_of
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.tools import ClientOfGroup, ConsumeDirectly, GetConsumerStatus
from gantrymq.protocol.stored_message import decode_record
from tests.support.brokers import Cluster, on_broker
from tests.support.consumers import Consumer


def test_the_answer_of_the_client_is_handed_back(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        consumer = Consumer(c, "one")
        await consumer.beat("T")
        consumer.replies[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda _: (0, b'{"properties":{}}')
        asked = ClientOfGroup(consumer_group="CG", client_id="one", jstack_enable=False)
        answer = await c.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, asked)
        assert (answer.code, answer.body, answer.remark) == (0, b'{"properties":{}}', "as asked")
        reported = consumer.heard(RequestCode.GET_CONSUMER_RUNNING_INFO)[0]
        assert reported.header(ClientOfGroup) == asked
        await consumer.close()

    on_broker(work, tmp_path)


def test_a_message_is_consumed_directly(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        consumer = Consumer(c, "one")
        await consumer.beat("T")
        sent = await c.sent("T", b"look at this")
        consumer.replies[RequestCode.CONSUME_MESSAGE_DIRECTLY] = lambda _: (0, b'{"consumeResult":"CR_SUCCESS"}')
        asked = ConsumeDirectly(consumer_group="CG", client_id="one", msg_id=sent.msg_id)
        answer = await c.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, asked)
        assert answer.body == b'{"consumeResult":"CR_SUCCESS"}'
        reported = consumer.heard(RequestCode.CONSUME_MESSAGE_DIRECTLY)[0]
        assert reported.header(ConsumeDirectly).broker_name == "broker-a"
        assert decode_record(reported.body).body == b"look at this"
        await consumer.close()

    on_broker(work, tmp_path)


def test_a_client_that_leaves_without_an_answer(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        consumer = Consumer(c, "one")
        await consumer.beat("T")

        def leave(_command: object) -> tuple[int, bytes]:
            c.broker.consumers.get("CG").members.copy().popitem()[1].connection.close()  # type: ignore[union-attr]
            return 0, b""

        consumer.replies[RequestCode.GET_CONSUMER_RUNNING_INFO] = leave
        answer = await c.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, ClientOfGroup(consumer_group="CG", client_id="one"))
        assert answer.code in (ResponseCode.CONSUME_MSG_TIMEOUT, ResponseCode.SUCCESS)
        await consumer.close()

    on_broker(work, tmp_path)


def test_positions_of_all_members(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        key = key_of(MessageQueue("T", "broker-a", 0))
        members = [Consumer(c, name) for name in ("one", "two", "odd")]
        for number, member in enumerate(members):
            await member.beat("T")
            body = PositionsByClient(message_queue_table={key: number}).encode() if number < 2 else b"nonsense"
            member.replies[RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT] = lambda _, body=body: (0, body)  # type: ignore[misc]
        answer = await c.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, GetConsumerStatus(topic="T", group="CG"))
        assert PositionsByClient.decode(answer.body).consumer_table == {"one": {key: 0}, "two": {key: 1}}
        offline = await c.ask(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, GetConsumerStatus(topic="T", group="No")
        )
        assert offline.code == ResponseCode.CONSUMER_NOT_ONLINE
        for member in members:
            await member.close()

    on_broker(work, tmp_path)
