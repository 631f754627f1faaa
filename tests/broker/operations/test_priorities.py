"""The priority of a message chooses its queue. Source: SendMessageProcessor.sendMessage of 5.5.0."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.operations.message_types import by_priority
from gantrymq.message import properties, system_topics
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.stored_message import scan
from tests.broker.operations.test_message_types import item
from tests.support.brokers import Cluster, on_broker, send_header

PRIORITY = properties.PRIORITY
QUEUES = 4


def ranked(priority: object, more: str = "") -> str:
    return f"UNIQ_KEY\x01K1\x02{PRIORITY}\x01{priority}\x02{more}"


@pytest.mark.parametrize(
    ("priority", "queue_id"), [(0, 0), (2, 2), (3, 3), (4, 3), (2**31 - 1, 3), (10**30, 3), ("007", 3)]
)
def test_the_priority_is_the_number_of_the_queue(priority: object, queue_id: int) -> None:
    text = ranked(priority)
    assert by_priority(text, 1, QUEUES) == (text, queue_id)


@pytest.mark.parametrize("priority", [-1, "high", "1.5", "1_0", " 1", "", "٣"])
def test_what_is_not_a_priority_changes_nothing(priority: object) -> None:
    text = ranked(priority)
    assert by_priority(text, 1, QUEUES) == (text, 1)


@pytest.mark.parametrize(
    "other", ["DELAY\x013\x02", "TIMER_DELAY_SEC\x019\x02", "__SHARDINGKEY\x01k\x02", "TRAN_MSG\x01true\x02"]
)
def test_a_message_of_another_kind_loses_its_priority(other: str) -> None:
    assert by_priority(ranked(3, other), 1, QUEUES) == (f"UNIQ_KEY\x01K1\x02{other}", 1)


def test_a_topic_that_cannot_be_written_to_keeps_queue_0() -> None:
    assert by_priority(ranked(3), 1, 0) == (ranked(3), 0)


def test_senders_are_told_the_queue_and_the_priority_is_stored(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", QUEUES, attributes="+message.type=PRIORITY")
        queues = [(await c.sent("T", b"x", ranked(number), queue_id=1)).queue_id for number in (0, 2, 9)]
        assert queues == [0, 2, 3]
        (stored,) = scan((await c.pull("T", 2)).body)
        assert properties.find(stored.properties_text, PRIORITY) == "2"
        plain = await c.sent("T", b"x", "UNIQ_KEY\x01K2\x02", queue_id=1)
        assert plain.queue_id == 1

    on_broker(work, tmp_path)


def test_halves_and_delayed_messages_are_stored_without_it(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", QUEUES)
        delayed = await c.sent("T", b"x", ranked(3, "DELAY\x011\x02"), queue_id=1)
        half = await c.sent("T", b"x", ranked(3, "TRAN_MSG\x01true\x02PGROUP\x01PG\x02"), queue_id=1, sys_flag=4)
        assert (delayed.queue_id, half.queue_id) == (1, 1)
        parked = [*scan(c.broker.store.get(system_topics.HALF, 0, 0, 10, 10_000).data)]
        assert [properties.find(one.properties_text, PRIORITY) for one in parked] == [None]

    on_broker(work, tmp_path)


def test_a_batch_has_one_queue(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", QUEUES, attributes="+message.type=PRIORITY")
        body = encode_batch([item("T", 4, 1), item("T", 4, 2)])
        answer = await c.ask(RequestCode.SEND_BATCH_MESSAGE, send_header("T", batch=True, queue_id=1), body)
        assert (answer.code, answer.header(SendMessageAnswer).queue_id) == (ResponseCode.SUCCESS, 1)

    on_broker(work, tmp_path)
