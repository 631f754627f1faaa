"""CONSUMER_SEND_MSG_BACK over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.message import properties, system_topics
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import scan
from tests.support.brokers import Cluster, on_broker, until

RETRY, DEAD = system_topics.retry_topic("CG"), system_topics.dead_letter_topic("CG")


async def back(c: Cluster, offset: int, level: int = 0, limit: int | None = 16) -> Command:
    header = SendBack(offset=offset, group="CG", delay_level=level, max_reconsume_times=limit)
    return await c.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)


async def stored(c: Cluster, topic: str, queue_id: int = 0) -> list[StoredMessage]:
    return list(scan((await c.pull(topic, queue_id)).body))


async def sent_offset(c: Cluster, text: str = "TAGS\x01A\x02UNIQ_KEY\x01K\x02") -> int:
    return parse_offset_message_id((await c.sent("T", b"again", text, queue_id=1)).msg_id)[1]


def test_the_first_retry_waits_in_level_three(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        offset = await sent_offset(c)
        answer = await back(c, offset)
        assert (answer.code, answer.ext) == (ResponseCode.SUCCESS, None)
        (waiting,) = await stored(c, system_topics.SCHEDULE, 2)
        text = properties.decode(waiting.properties_text)
        assert text["RETRY_TOPIC"] == "T"
        assert text["ORIGIN_MESSAGE_ID"].endswith(f"{offset:016X}")
        assert (text["REAL_TOPIC"], text["REAL_QID"], text["DELAY"], text["WAIT"]) == (RETRY, "0", "3", "false")
        assert (waiting.reconsume_times, waiting.body, text["TAGS"]) == (1, b"again", "A")

    on_broker(work, tmp_path)


def test_a_retry_comes_back_and_remembers_where_it_came_from(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        first = await sent_offset(c)
        assert (await back(c, first, level=1)).code == ResponseCode.SUCCESS

        async def returned() -> bool:
            return c.broker.topics.exists(RETRY) and bool(await stored(c, RETRY))

        await until(returned)
        (retried,) = await stored(c, RETRY)
        assert retried.reconsume_times == 1
        assert (await back(c, retried.log_offset)).code == ResponseCode.SUCCESS
        (waiting,) = await stored(c, system_topics.SCHEDULE, 3)
        text = properties.decode(waiting.properties_text)
        assert text["RETRY_TOPIC"] == "T", "the first topic stays, not the retry topic"
        assert text["ORIGIN_MESSAGE_ID"].endswith(f"{first:016X}")
        assert (waiting.reconsume_times, text["DELAY"], text["REAL_TOPIC"]) == (2, "4", RETRY)

    on_broker(work, tmp_path, message_delay_level="1s 5s 10s 30s 1m")


@pytest.mark.parametrize(("level", "limit"), [(-1, 16), (0, 0), (3, 0)])
def test_dead_letters(tmp_path: Path, level: int, limit: int) -> None:
    async def work(c: Cluster) -> None:
        assert (await back(c, await sent_offset(c), level, limit)).code == ResponseCode.SUCCESS
        (dead,) = await stored(c, DEAD)
        assert dead.body == b"again"
        assert properties.find(dead.properties_text, "DELAY") == "0"
        topic = c.broker.topics.get(DEAD)
        assert topic is not None and (topic.read_queue_nums, topic.perm) == (1, 6)

    on_broker(work, tmp_path)


def test_refusals(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        offset = await sent_offset(c)
        for wrong in (offset + 1, 10_000_000, -5):
            answer = await back(c, wrong)
            assert (answer.code, str(wrong) in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        header = SendBack(offset=offset, group="not a group!", delay_level=0)
        unknown = await c.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        assert unknown.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        c.broker.topics.ensure(DEAD, 1, 4)
        assert (await back(c, offset, -1)).code == ResponseCode.NO_PERMISSION

    on_broker(work, tmp_path)


def test_a_half_message_cannot_be_brought_out_by_sending_it_back(tmp_path: Path) -> None:
    """X5: this would show an undecided message to a group."""

    async def work(c: Cluster) -> None:
        half = await sent_offset(c, "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K\x02")
        assert (await back(c, half)).code == ResponseCode.SYSTEM_ERROR

    on_broker(work, tmp_path)
