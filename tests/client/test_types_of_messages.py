"""Messages with a priority, and those to lite topics, sent and received by our client, with a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.aio import Admin, ConsumeFromWhere, Message, Producer, SimpleConsumer
from gantrymq.errors import MessageIllegal, RequestRejected
from tests.client.peer import run
from tests.client.real import server


def test_a_consumer_gets_higher_priorities_first(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            async with Admin(address) as admin:
                await admin.create_topic("Ranked", message_type="PRIORITY")
            async with Producer("PG", name_servers=address) as producer:
                for priority in (0, 3, 1, 2, 0):
                    sent = await producer.send(Message("Ranked", str(priority), priority=priority))
                    assert sent.queue.queue_id == priority
            consumer = SimpleConsumer("SG", name_servers=address, from_where=ConsumeFromWhere.FIRST_OFFSET)
            async with consumer.subscribe("Ranked") as one:
                found = [(await one.receive(1, 60_000))[0] for _ in range(5)]
                assert [view.priority for view in found] == [3, 2, 1, 0, 0]
                assert [view.body for view in found] == [b"3", b"2", b"1", b"0", b"0"]

    run(test)


def test_a_topic_of_another_type_refuses_it_and_says_where_it_can_go(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            async with Admin(address) as admin:
                await admin.create_topic("Plain", message_type="NORMAL")
            async with Producer("PG", name_servers=address) as producer:
                with pytest.raises(
                    RequestRejected, match="takes no message that is sent with a priority; send it to a "
                ):
                    await producer.send(Message("Plain", "x", priority=1))

    run(test)


def test_what_cannot_have_a_priority_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            with pytest.raises(MessageIllegal, match="an ordered message cannot have a priority"):
                await producer.send_ordered(Message("T", "x", priority=1), "key")
            with pytest.raises(MessageIllegal, match="a batch has one queue, and cannot hold priorities"):
                await producer.send_batch([Message("T", "x", priority=1)])

    run(test)


def test_a_message_to_a_lite_topic_is_sent_and_others_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            async with Admin(address) as admin:
                await admin.create_topic("Baskets", message_type="LITE")
            async with Producer("PG", name_servers=address) as producer:
                message = Message("Baskets", "x", lite_topic="basket-17")
                assert message.lite_topic == "basket-17"
                await producer.send(message)
                with pytest.raises(RequestRejected, match="takes no message that is plain; send it to a topic of type"):
                    await producer.send(Message("Baskets", "x"))
                with pytest.raises(RequestRejected, match="the topic T has no lite topics"):
                    await producer.send(Message("T", "x", lite_topic="basket-17"))
                for sent in (producer.send_ordered(message, "key"), producer.send_batch([message])):
                    with pytest.raises(MessageIllegal, match="lite topic"):
                        await sent

    run(test)
