"""Timer messages over the wire: sends, recall, and what tools ask."""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec
import pytest

from gantrymq.message import properties, recall_handle, system_topics
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.send import RecallMessage, RecallMessageAnswer
from tests.support.brokers import Cluster, on_broker, until

KEY = "UNIQ_KEY\x010A0B\x02"


async def recall(c: Cluster, handle: str, topic: str = "T") -> Command:
    header = RecallMessage(topic=topic, recall_handle=handle, producer_group="PG")
    return await c.ask(RequestCode.RECALL_MESSAGE, header)


def test_a_timer_message_is_answered_with_its_place_and_a_handle_and_comes(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        sent = await c.sent("T", b"later", f"{KEY}TIMER_DELAY_MS\x01100\x02", queue_id=2)
        assert (sent.queue_id, sent.queue_offset, sent.transaction_id) == (2, 0, "0A0B")
        store = c.broker.store
        entry = store.entry(system_topics.TIMER, 0, 0)
        assert entry is not None
        parked = store.read(entry.log_offset)
        assert parked is not None
        out = int(properties.find(parked.properties_text, "TIMER_OUT_MS") or 0)
        assert recall_handle.decode(sent.recall_handle or "") == ("T", "broker-a", out + 1, "0A0B")
        await until(lambda: store.queue_range("T", 2) == (0, 1))
        assert parked.properties_text.endswith(f"TIMER_OUT_MS\x01{out}\x02REAL_TOPIC\x01T\x02REAL_QID\x012\x02")

    on_broker(work, tmp_path, timer_precision_ms=100)


@pytest.mark.slow
def test_a_recalled_message_does_not_come(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        one = await c.sent("T", b"one", f"{KEY}TIMER_DELAY_MS\x013000\x02")
        await c.sent("T", b"two", "UNIQ_KEY\x010A0C\x02TIMER_DELAY_MS\x013000\x02")
        answer = await recall(c, one.recall_handle or "")
        assert answer.code == ResponseCode.SUCCESS
        assert answer.header(RecallMessageAnswer) == RecallMessageAnswer(msg_id="0A0B", region="DefaultRegion")
        await until(lambda: c.broker.store.queue_range("T", 0)[1] > 0)
        assert c.broker.store.read(c.broker.store.entry("T", 0, 0).log_offset).body == b"two"  # type: ignore[union-attr]

    on_broker(work, tmp_path, timer_precision_ms=100, recall_message_enable=True)


@pytest.mark.parametrize(
    "delay", ["TIMER_DELAY_MS\x010\x02", "TIMER_DELIVER_MS\x01123\x02", "TIMER_DELAY_SEC\x01-1\x02"]
)
def test_a_time_that_is_past_means_now(tmp_path: Path, delay: str) -> None:
    async def work(c: Cluster) -> None:
        sent = await c.sent("T", b"now", KEY + delay)
        assert sent.recall_handle is None
        assert c.broker.store.queue_range("T", 0) == (0, 1)

    on_broker(work, tmp_path)


def test_a_level_takes_precedence_and_a_message_that_waited_does_not_wait_again(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        sent = await c.sent("T", b"level", f"{KEY}DELAY\x0118\x02TIMER_DELAY_SEC\x015\x02")
        assert sent.recall_handle is None
        assert c.broker.store.queue_range(system_topics.SCHEDULE, 17) == (0, 1)
        await c.sent("T", b"waited", f"{KEY}TIMER_DELAY_SEC\x015\x02TIMER_OUT_MS\x015000\x02")
        assert c.broker.store.queue_range("T", 0) == (0, 1)
        assert c.broker.store.queue_range(system_topics.TIMER, 0) == (0, 0)

    on_broker(work, tmp_path)


@pytest.mark.parametrize("delay", ["TIMER_DELAY_SEC\x0111\x02", "TIMER_DELAY_MS\x01soon\x02"])
def test_what_cannot_wait_is_refused(tmp_path: Path, delay: str) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.send("T", b"x", KEY + delay)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL and "timer message illegal" in (answer.remark or "")

    on_broker(work, tmp_path, timer_max_delay_sec=10)


def test_nobody_sends_to_the_timer_topic(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.send(
            system_topics.TIMER, b"x", f"{KEY}TIMER_OUT_MS\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02"
        )
        assert answer.code == ResponseCode.NO_PERMISSION

    on_broker(work, tmp_path)


def test_recalls_that_are_refused(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        handle = (await c.sent("T", b"x", f"{KEY}TIMER_DELAY_SEC\x015\x02")).recall_handle or ""
        due = recall_handle.decode(handle).deliver_ms
        await c.sent("Other", b"x", KEY)
        for given, topic, code in (
            ("nonsense", "T", ResponseCode.ILLEGAL_OPERATION),
            (handle, "Other", ResponseCode.ILLEGAL_OPERATION),
            (handle, "Nowhere", ResponseCode.TOPIC_NOT_EXIST),
            (recall_handle.encode("T", "broker-b", due, "K"), "T", ResponseCode.ILLEGAL_OPERATION),
            (recall_handle.encode("T", "broker-a", 5, "K"), "T", ResponseCode.ILLEGAL_OPERATION),
            (recall_handle.encode("T", "broker-a", due + 10**9, "K"), "T", ResponseCode.ILLEGAL_OPERATION),
            (recall_handle.encode("T", "broker-a", due, "K\x01"), "T", ResponseCode.ILLEGAL_OPERATION),
        ):
            answer = await recall(c, given, topic)
            assert answer.code == code and (answer.remark or "").startswith("recall failed"), answer.remark
        assert c.broker.store.queue_range(system_topics.TIMER, 0) == (0, 1)

    on_broker(work, tmp_path, recall_message_enable=True)


def test_recall_is_off_unless_asked_for(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        handle = (await c.sent("T", b"x", f"{KEY}TIMER_DELAY_SEC\x015\x02")).recall_handle or ""
        assert (await recall(c, handle)).code == ResponseCode.NO_PERMISSION

    on_broker(work, tmp_path)


def test_what_tools_ask(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T", b"x", f"{KEY}TIMER_DELAY_SEC\x0150\x02")
        await until(lambda: c.broker.timer is not None and c.broker.timer.check.queue_offset == 1)
        check = await c.ask(RequestCode.GET_TIMER_CHECK_POINT)
        assert struct.unpack(">7q", check.body)[1:5] == (0, 1, 1, 0)
        metrics = msgspec.json.decode((await c.ask(RequestCode.GET_TIMER_METRICS)).body)
        assert metrics["timingCount"]["T"]["count"] == 1 and metrics.keys() == {"dataVersion", "timingCount"}

    on_broker(work, tmp_path)


def test_what_tools_ask_a_broker_without_timer(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for code in (RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS):
            assert (await c.ask(code)).code == ResponseCode.SYSTEM_ERROR
        assert (await recall(c, "x")).code == ResponseCode.NO_PERMISSION

    on_broker(work, tmp_path, timer_wheel_enable=False, recall_message_enable=True)
