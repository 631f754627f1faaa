"""Priorities and lite topics by frames, on our broker and on Apache 5.5.0; and a store with both that changes hands."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gantrymq import LiteSimpleConsumer
from gantrymq.message import properties
from gantrymq.message.lite_topics import lite_queue
from gantrymq.message.receipt_handle import ORDERLY, ReceiptHandle
from gantrymq.protocol.bodies.lite import LiteAction, LiteSubscriptionItem, LiteSubscriptions
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.lite import PopLiteMessage, PopLiteMessageAnswer
from gantrymq.protocol.headers.pop import AckMessage
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer
from gantrymq.protocol.headers.topics import CreateTopic
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.store.config import StoreConfig
from gantrymq.store.message_store import MessageStore
from gantrymq.store.queues.multi_dispatch import further_places
from tests.interop.apache import SMALL_STORE, ApacheCluster
from tests.interop.ours import GantryCluster
from tests.interop.pops import LONG_MS, PopBroker
from tests.interop.process import poll
from tests.support.places import HOST

RANKED, PARENT, RANKERS, READERS = "Ranked", "Baskets", "rankers", "readers"
QUEUES = 4
CONF = {"flushConsumerOffsetInterval": "300", "mappedFileSizeTimerLog": "52000"}
LITE = {"enableLmq": "true", "enableMultiDispatch": "true"}
"""Apache's broker has lite topics only with these."""


class TypesBroker(PopBroker):
    """A broker with a topic of each type, and what is asked of it."""

    def make(self) -> None:
        for topic, message_type in ((RANKED, "PRIORITY"), (PARENT, "LITE")):
            header = CreateTopic(
                topic=topic, default_topic="TBW102", read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6,
                topic_filter_type="SINGLE_TAG", order=False, attributes=f"+message.type={message_type}",
            )  # fmt: skip
            assert self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header).code == ResponseCode.SUCCESS
        for group, attributes in ((RANKERS, {}), (READERS, {"+lite.bind.topic": PARENT})):
            body = json.dumps({"groupName": group, "attributes": attributes}).encode()
            assert self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body).code == ResponseCode.SUCCESS

    def put(self, topic: str, body: str, **values: str) -> int:
        """Which queue it went to."""
        header = SendMessage(
            producer_group="PG", topic=topic, default_topic="TBW102", default_topic_queue_nums=1, queue_id=1,
            sys_flag=0, born_timestamp=1_700_000_000_000, flag=0, properties=properties.encode(values),
            reconsume_times=0, unit_mode=False, batch=False,
        )  # fmt: skip
        answer = self.ask(RequestCode.SEND_MESSAGE_V2, header, body.encode())
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        sent = answer.header(SendMessageAnswer)
        poll(lambda: self.end(topic, sent.queue_id) > sent.queue_offset, "message in its queue")
        return sent.queue_id

    def rank(self, priority: int) -> int:
        return self.put(RANKED, str(priority), **{properties.PRIORITY: str(priority)})

    def fill(self, lite_topic: str, *bodies: str) -> None:
        for body in bodies:
            self.put(PARENT, body, **{properties.LITE_TOPIC: lite_topic})

    def subscribe(self, *lite_topics: str) -> None:
        item = LiteSubscriptionItem(
            action=LiteAction.COMPLETE_ADD, client_id="c1", group=READERS, topic=PARENT,
            lite_topic_set=list(lite_topics), version=1,
        )  # fmt: skip
        body = LiteSubscriptions(subscription_set=[item]).encode()
        answer = self.ask(RequestCode.LITE_SUBSCRIPTION_CTL, None, body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def pop_lite(self, count: int = 32) -> tuple[Command, list[tuple[str, int, str]]]:
        """The answer, and body, place in the lite topic, and lite topic of each message."""
        header = PopLiteMessage(
            client_id="c1", consumer_group=READERS, topic=PARENT, max_msg_num=count, invisible_time=LONG_MS,
            poll_time=0, born_time=SystemClock().wall_ms(),
        )  # fmt: skip
        answer = self.ask(RequestCode.POP_LITE_MESSAGE, header)
        return answer, [
            (
                message.body.decode(), further_places(message.properties_text)[0][1],
                properties.find(message.properties_text, properties.LITE_TOPIC) or "",
            )
            for message in scan(answer.body)
        ]  # fmt: skip

    def ack_lite(self, answer: Command, lite_topic: str, number: int) -> int:
        header = answer.header(PopLiteMessageAnswer)
        handle = ReceiptHandle(number, header.pop_time, LONG_MS, ORDERLY, "0", "broker-a", 0, number)
        ack = AckMessage(
            consumer_group=READERS, topic=PARENT, queue_id=0, extra_info=str(handle), offset=number,
            lite_topic=lite_topic,
        )  # fmt: skip
        return self.ask(RequestCode.ACK_MESSAGE, ack).code


@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("kind", ["gantry", "apache"])
def test_both_brokers_rank_messages_and_keep_lite_topics_in_order(kind: str, tmp_path: Path) -> None:
    cluster = GantryCluster(tmp_path) if kind == "gantry" else ApacheCluster("5.5.0", tmp_path)
    try:
        cluster.start_name_server()
        cluster.start_broker(tmp_path / "store", **CONF, **(LITE if kind == "apache" else {}))
        broker = TypesBroker(cluster)
        broker.make()
        assert [broker.rank(priority) for priority in (0, 3, 1, 9, 2)] == [0, 3, 1, 3, 2]
        assert broker.put(RANKED, "none") == 1
        popped = [broker.pop(RANKED, RANKERS, max_msg_nums=1)[1][0][0] for _ in range(6)]
        assert popped == ["3", "9", "2", "1", "none", "0"]
        broker.subscribe("a", "b")
        broker.fill("a", "a0", "a1", "a2")
        broker.fill("c", "c0")
        answer, first = broker.pop_lite(1)
        assert first == [("a0", 0, "a")]
        assert broker.pop_lite()[1] == [], "a is blocked"
        assert broker.ack_lite(answer, "a", 0) == ResponseCode.SUCCESS
        rest: list[tuple[str, int, str]] = []

        def came() -> bool:  # Apache's broker notes what an acknowledgement has opened a moment later
            rest.extend(broker.pop_lite()[1])
            return bool(rest)

        poll(came, "the rest of a")
        assert rest == [("a1", 1, "a"), ("a2", 2, "a")]
        assert our_consumer_receives(cluster.name_servers, "c") == ["c0"]
    finally:
        cluster.close()


def our_consumer_receives(name_servers: str, lite_topic: str) -> list[str]:
    """All messages of a lite topic, by our own client; each is given back once, and then acknowledged."""
    found: list[str] = []
    with LiteSimpleConsumer(READERS, PARENT, name_servers=name_servers, await_duration_ms=3_000) as consumer:
        consumer.subscribe_lite(lite_topic)
        for view in consumer.receive(1, 60_000):
            consumer.change_invisible_duration(view, 0)
            (again,) = consumer.receive(1, 60_000)
            consumer.ack(again)
            found.append(again.body.decode())
        assert consumer.receive(1, 60_000) == []
    return found


@pytest.mark.usefixtures("jdk")
def test_a_store_with_both_changes_hands(tmp_path: Path) -> None:
    ours, apache = GantryCluster(tmp_path / "ours"), ApacheCluster("5.5.0", tmp_path / "apache")
    store = tmp_path / "store"
    wanted: dict[str, list[str]] = {"a": [], "b": []}
    ranked: list[str] = []
    try:
        ours.start_name_server()
        apache.name_servers = ours.name_servers
        for number, cluster in enumerate((ours, apache, ours, apache)):
            process = cluster.start_broker(store, **CONF, **(LITE if cluster is apache else {}))
            broker = TypesBroker(cluster)
            if not number:
                broker.make()
            for lite_topic, bodies in wanted.items():
                broker.fill(lite_topic, f"{lite_topic}{number}")
                bodies.append(f"{lite_topic}{number}")
            broker.rank(number)
            ranked.append(str(number))
            got = [broker.pop(RANKED, f"{RANKERS}{number}", max_msg_nums=1)[1] for _ in ranked]
            assert [one[0][0] for one in got] == sorted(ranked, reverse=True)
            process.stop()
            assert lite_topics_in(store) == wanted
    finally:
        apache.close()
        ours.close()


def lite_topics_in(store: Path) -> dict[str, list[str]]:
    """As the files say it, while no broker has them."""
    sizes = {
        "mapped_file_size_commit_log": int(SMALL_STORE["mappedFileSizeCommitLog"]),
        "mapped_file_size_consume_queue": int(SMALL_STORE["mappedFileSizeConsumeQueue"]),
        "max_index_num": int(SMALL_STORE["maxIndexNum"]), "max_hash_slot_num": int(SMALL_STORE["maxHashSlotNum"]),
    }  # fmt: skip

    async def look() -> dict[str, list[str]]:
        opened = MessageStore.open(StoreConfig(str(store), **sizes), OsDisk(), SystemClock(), HOST)
        try:
            return {
                name: [
                    message.body.decode()
                    for message in scan(opened.get(lite_queue(PARENT, name), 0, 0, 100, 1 << 20).data)
                ]
                for name in "ab"
            }
        finally:
            await opened.close()

    return asyncio.run(look())
