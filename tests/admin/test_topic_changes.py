"""What changes of topics would do. The questions themselves are asked of real brokers in ``tests/cli``, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq import aio
from gantrymq.admin import Admin, MessagesHidden
from gantrymq.admin.topic_changes import QUEUES_NAMED, TopicChange, Wanted, why_refused
from gantrymq.errors import ConfigError
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.files.topics import TopicConfig
from tests.client import real

TOPIC = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4, attributes={"message.type": "FIFO"})


def change(before: TopicConfig | None, **wanted: object) -> TopicChange:
    after = Wanted(**wanted).over(before or TOPIC)  # type: ignore[arg-type]
    return TopicChange(broker="broker-a", address="127.0.0.1:1", before=before, after=after)


def test_what_is_not_given_stays() -> None:
    assert change(TOPIC).after == TOPIC and not change(TOPIC).differences()
    assert change(TOPIC, perm=4, message_type="NORMAL").differences() == [
        ("perm", 6, 4),
        ("message.type", "FIFO", "NORMAL"),
    ]
    assert not change(None, perm=4).differences(), "a new one has nothing that changes"


@pytest.mark.parametrize(
    ("wanted", "hidden"),
    [
        ({"write_queues": 1}, []),
        ({"read_queues": 1}, [1, 2, 3]),
        ({"read_queues": 4, "perm": 4}, []),
        ({"perm": 2}, [0, 1, 2, 3]),
        ({"read_queues": 8, "write_queues": 8}, []),
    ],
)
def test_which_queues_are_hidden(wanted: dict[str, object], hidden: list[int]) -> None:
    assert [queue for queue in range(4) if change(TOPIC, **wanted).hides(queue)] == hidden
    assert not any(change(None, **wanted).hides(queue) for queue in range(4))


def test_queues_that_nobody_would_read() -> None:
    assert change(TOPIC, write_queues=6).unread_queues() == 2
    assert change(None, write_queues=6).unread_queues() == 2
    assert change(TOPIC, write_queues=6, perm=4).unread_queues() == 0, "nobody writes to them"
    shrunk = change(TOPIC, write_queues=6).after
    assert change(shrunk, order=True).unread_queues() == 0, "it is like that already"


def test_a_refusal_names_some_queues_and_the_safe_way() -> None:
    hidden = {MessageQueue("T", "broker-a", number): 2 for number in range(QUEUES_NAMED + 1)}
    said = why_refused("T", [change(TOPIC, read_queues=1)], hidden)
    assert said is not None and "14 message(s) in 7 queue(s)" in said and "broker-a:5, ..." in said
    assert "writeQueueNums" in said and "readQueueNums" in said
    assert why_refused("T", [change(TOPIC, write_queues=1)], {}) is None


@pytest.mark.parametrize("wanted", [Wanted(read_queues=0), Wanted(write_queues=-1), Wanted(message_type="nonsense")])
def test_what_no_topic_can_have_is_refused_before_anybody_is_asked(wanted: Wanted) -> None:
    with pytest.raises(ConfigError):
        wanted.check()


def test_the_api_hides_messages_only_when_told_to(tmp_path: Path) -> None:
    async def scenario(name_servers: str) -> None:
        async with Admin(name_servers) as admin, aio.Producer("G", name_servers=name_servers) as producer:
            await admin.create_topic("T", 4, "NORMAL")
            for queue in await producer.queues("T"):
                await producer.send(Message("T", b"x"), queue=queue)
            with pytest.raises(MessagesHidden, match=r"3 message\(s\) in 3 queue\(s\).*hide_messages=True"):
                await admin.create_topic("T", 1)
            assert next(iter((await admin.topic_state.configs("T")).values())).read_queue_nums == 4
            await admin.create_topic("T", 1, hide_messages=True)
            (config,) = (await admin.topic_state.configs("T")).values()
            assert (config.read_queue_nums, config.attributes) == (1, {"message.type": "NORMAL"})

    async def run() -> None:
        async with asyncio.timeout(30), real.server(tmp_path) as name_servers:
            await scenario(name_servers)

    asyncio.run(run())
