"""What brokers ask consumers, and a broadcast's file: against a scripted broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gantrymq.aio import ConsumeFromWhere, ConsumeStatus, Message, MessageView, Producer, PushConsumer
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.progress import (
    ConsumedDirectly,
    ConsumerRunning,
    OffsetsByQueue,
    PositionsByClient,
    key_of,
    queue_of,
)
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Header, encode_request
from gantrymq.protocol.headers.tools import ClientOfGroup, ConsumeDirectly, GetConsumerStatus, ResetOffset
from tests.client.peer import ScriptedBroker, ScriptedCluster, cluster, run, until

QUEUE = MessageQueue("T", "broker-a", 0)
TOPICS = {"T": 1, "%RETRY%cg": 1}


class Asker:
    """Puts questions to the newest consumer of a scripted broker."""

    def __init__(self, peers: ScriptedCluster) -> None:
        self.broker: ScriptedBroker = peers.broker
        self.answers: dict[int, bytes] = {}
        peers.broker.server._responses = lambda session, command: self.answers.update({command.opaque: command.body})

    def tell(self, code: int, header: Header, body: bytes = b"", one_way: bool = False) -> int:
        session = self.broker.consumers[-1]  # not whichever is alive: that of a producer may not have ended yet
        opaque = session.next_opaque()
        session.send(encode_request(code, opaque, header, body, one_way=one_way))
        return opaque

    async def ask(self, code: int, header: Header, body: bytes = b"") -> bytes:
        opaque = self.tell(code, header, body)
        await until(lambda: opaque in self.answers)
        return self.answers[opaque]


async def fill(peers: ScriptedCluster, *bodies: str) -> None:
    async with Producer("pg", name_servers=peers.address) as producer:
        for body in bodies:
            await producer.send(Message("T", body), QUEUE)


def test_state_progress_and_a_message_to_be_consumed() -> None:
    async def test() -> None:
        observed: list[str] = []

        def listener(messages: list[MessageView]) -> ConsumeStatus | None:
            observed.extend(view.body.decode() for view in messages)
            if messages[0].body == b"raise":
                raise ValueError("as asked")
            return ConsumeStatus.RECONSUME_LATER if messages[0].body == b"later" else None

        async with cluster(topics=TOPICS) as peers:
            await fill(peers, "a", "b")
            consumer = PushConsumer(
                "cg", name_servers=peers.address, listener=listener, from_where=ConsumeFromWhere.FIRST_OFFSET
            )
            async with consumer.subscribe("T", "*"):
                await until(lambda: len(observed) == 2)
                asker = Asker(peers)
                header = ClientOfGroup(consumer_group="cg", client_id=consumer.client_id)
                running = ConsumerRunning.decode(await asker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header))
                assert {queue_of(key) for key in running.mq_table} == {QUEUE, MessageQueue("%RETRY%cg", "broker-a", 0)}
                assert running.properties["PROP_CONSUMEORDERLY"] == "false"
                assert {data.topic for data in running.subscription_set} == {"T", "%RETRY%cg"}

                async def positions() -> dict[str, int]:
                    status = GetConsumerStatus(topic="T", group="cg")
                    body = await asker.ask(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, status)
                    return PositionsByClient.decode(body).message_queue_table

                while await positions() != {key_of(QUEUE): 2}:  # it is there when the listener has ended, not begun
                    await asyncio.sleep(0.01)
                for body, result in (("later", "CR_LATER"), ("raise", "CR_THROW_EXCEPTION"), ("fine", "CR_SUCCESS")):
                    await fill(peers, body)
                    await until(lambda wanted=body: wanted in observed)  # type: ignore[misc]
                    record = peers.broker.queues["T", 0][-1]
                    direct = ConsumeDirectly(consumer_group="cg", broker_name="broker-a")
                    answer = await asker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, direct, record)
                    reported = ConsumedDirectly.decode(answer)
                    assert reported.consume_result == result and observed.count(body) == 2
                    assert (reported.remark is not None) == (body == "raise")

    run(test)


def test_a_reset_begins_anew_where_it_says() -> None:
    async def test() -> None:
        observed: list[str] = []
        async with cluster(topics=TOPICS) as peers:
            await fill(peers, "a", "b", "c")
            consumer = PushConsumer(
                "cg", name_servers=peers.address, from_where=ConsumeFromWhere.FIRST_OFFSET,
                listener=lambda messages: observed.extend(view.body.decode() for view in messages),
            )  # fmt: skip
            async with consumer.subscribe("T"):
                await until(lambda: len(observed) == 3)
                table = {key_of(QUEUE): 1, key_of(MessageQueue("T", "elsewhere", 0)): 5}
                header = ResetOffset(topic="T", group="cg", timestamp=0, is_force=True)
                body = OffsetsByQueue(offset_table=table).encode()
                Asker(peers).tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body, one_way=True)
                await until(lambda: len(observed) == 5)
            assert sorted(observed) == ["a", "b", "b", "c", "c"] and peers.broker.offsets["cg", "T", 0] == 3

    run(test)


def test_a_broadcast_keeps_its_own_progress_and_asks_for_no_repetition(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(topics={"T": 1}) as peers:
            await fill(peers, "a", "b")

            async def consume(*expected: str) -> None:
                observed: list[str] = []

                def listener(messages: list[MessageView]) -> ConsumeStatus:
                    observed.extend(view.body.decode() for view in messages)
                    return ConsumeStatus.RECONSUME_LATER

                consumer = PushConsumer(
                    "cg", name_servers=peers.address, listener=listener, broadcasting=True, offset_dir=str(tmp_path),
                    from_where=ConsumeFromWhere.FIRST_OFFSET,
                ).subscribe("T")  # fmt: skip
                async with consumer:
                    await until(lambda: sorted(observed) == sorted(expected))
                    assert consumer.client_id == "127.0.0.1@DEFAULT"

            await consume("a", "b")
            await fill(peers, "c")
            await consume("c")
            reported = set(peers.broker.codes())
            assert not reported & {RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.QUERY_CONSUMER_OFFSET}
            assert not reported & {RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.GET_CONSUMER_LIST_BY_GROUP}
            assert peers.broker.beats[-1].consumer_data_set[0].message_model == "BROADCASTING"

    run(test)
