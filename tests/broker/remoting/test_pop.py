"""Popping over real sockets: what is handed out, acknowledged, renewed, brought back, waited for and refused."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.receipt_handle import ReceiptHandle, parse
from gantrymq.message.system_topics import pop_retry_topic
from gantrymq.protocol.bodies.pop import BatchAckRequest
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeAnswer,
    Notification,
    NotificationAnswer,
    PeekMessage,
    PopMessage,
    PopMessageAnswer,
    WaitingPops,
    WaitingPopsAnswer,
)
from gantrymq.protocol.headers.topics import TopicOnly
from gantrymq.protocol.stored_message import scan
from tests.support.brokers import Cluster, on_broker, until

LONG_MS = 60_000


@dataclass
class Got:
    """A popped message and its handle, as a client makes it."""

    message: StoredMessage
    handle: ReceiptHandle

    @property
    def body(self) -> bytes:
        return self.message.body


def pop_header(topic: str, **fields: object) -> PopMessage:
    values: dict[str, object] = {
        "consumer_group": "CG", "topic": topic, "queue_id": -1, "max_msg_nums": 32, "invisible_time": LONG_MS,
        "poll_time": 0, "born_time": 0, "init_mode": 1, "exp_type": "TAG", "exp": "*",
    }  # fmt: skip
    return PopMessage(**{**values, **fields})  # type: ignore[arg-type]


async def ask_pop(c: Cluster, topic: str, **fields: object) -> Command:
    return await c.ask(RequestCode.POP_MESSAGE, pop_header(topic, **fields))


def read(answer: Command, broker: str = "broker-a") -> list[Got]:
    """The messages with handles made the way MQClientAPIImpl makes them."""
    if answer.code != ResponseCode.SUCCESS:
        return []
    header = answer.header(PopMessageAnswer)
    starts = {}
    for item in (header.start_offset_info or "").split(";"):
        kind, queue, start = item.split(" ")
        starts[kind, int(queue)] = int(start)
    offsets: dict[tuple[str, int], list[int]] = {}
    for item in (header.msg_offset_info or "").split(";"):
        kind, queue, text = item.split(" ")
        assert (kind, int(queue)) not in offsets, "a queue is named once"
        offsets[kind, int(queue)] = [int(number) for number in text.split(",")]
    found = []
    for message in scan(answer.body):
        own = properties.find(message.properties_text, properties.POP_CHECK_POINT)
        if own is None:
            assert message.queue_offset in offsets["0", message.queue_id]
            own = str(
                ReceiptHandle(
                    starts["0", message.queue_id], header.pop_time, header.invisible_time, header.revive_qid, "0",
                    broker, message.queue_id, message.queue_offset,
                )
            )  # fmt: skip
        found.append(Got(message, parse(own)))
    return found


async def pop(c: Cluster, topic: str, **fields: object) -> list[Got]:
    answer = await ask_pop(c, topic, **fields)
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT), answer.remark
    return read(answer)


def real_topic(got: Got, topic: str, group: str = "CG") -> str:
    return {"0": topic, "1": pop_retry_topic(topic, group), "2": pop_retry_topic(topic, group, v2=True)}[
        got.handle.kind
    ]


async def ack(c: Cluster, name: str, got: Got, group: str = "CG", **fields: object) -> Command:
    values: dict[str, object] = {
        "consumer_group": group, "topic": real_topic(got, name, group), "queue_id": got.handle.queue_id,
        "extra_info": str(got.handle), "offset": got.handle.offset,
    }  # fmt: skip
    return await c.ask(RequestCode.ACK_MESSAGE, AckMessage(**{**values, **fields}))  # type: ignore[arg-type]


async def change(c: Cluster, topic: str, got: Got, invisible_ms: int, **fields: object) -> Command:
    values: dict[str, object] = {
        "consumer_group": "CG", "topic": real_topic(got, topic), "queue_id": got.handle.queue_id,
        "extra_info": str(got.handle), "offset": got.handle.offset, "invisible_time": invisible_ms,
    }  # fmt: skip
    return await c.ask(
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
        ChangeInvisibleTime(**{**values, **fields}),  # type: ignore[arg-type]
    )


def bodies(found: list[Got]) -> list[bytes]:
    return sorted(got.body for got in found)


@pytest.mark.slow
def test_what_was_popped_is_invisible_and_what_was_acknowledged_stays_away(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for number in range(6):
            await c.sent("T", b"%d" % number, queue_id=number % 3)
        first = await pop(c, "T", max_msg_nums=4, invisible_time=3_000)
        second = await pop(c, "T", max_msg_nums=4, invisible_time=3_000)
        assert bodies(first + second) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        for got in first:
            assert (await ack(c, "T", got)).code == ResponseCode.SUCCESS
        assert await pop(c, "T") == []
        again: list[Got] = []

        async def two_more() -> bool:
            again.extend(await pop(c, "T"))
            return len(again) == 2

        await until(two_more)
        assert bodies(again) == bodies(second)
        assert {got.message.reconsume_times for got in again} == {1}
        assert {got.handle.kind for got in again} == {"1"}
        assert {got.message.topic for got in again} == {"T"}
        for got in again:
            first_pop = properties.find(got.message.properties_text, properties.FIRST_POP_TIME)
            assert first_pop == str(second[0].handle.pop_time)
            assert (await ack(c, "T", got)).code == ResponseCode.SUCCESS
        assert len(c.broker.popping.consumption.revive_log.ledger) == 0

    on_broker(work, tmp_path)


def test_a_group_that_never_acknowledges_gets_a_dead_letter_in_the_end(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T", b"poison", "TAGS\x01A\x02KEYS\x01k\x02")
        await c.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"CG","retryMaxTimes":2}')
        times: list[int] = []

        async def dead() -> bool:
            times.extend(got.message.reconsume_times for got in await pop(c, "T", invisible_time=100, exp="A"))
            return c.broker.store.queue_range("%DLQ%CG", 0)[1] == 1

        await until(dead)
        assert times == [0, 1, 2]
        (letter,) = scan((await c.pull("%DLQ%CG")).body)
        assert letter.body == b"poison"
        text = letter.properties_text
        assert properties.find(text, properties.RETRY_TOPIC) == "T"
        assert properties.find(text, properties.KEYS) == "k"

    on_broker(work, tmp_path)


@pytest.mark.slow
def test_a_renewed_message_stays_invisible_and_the_old_handle_is_dead(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T", b"slow")
        (got,) = await pop(c, "T", invisible_time=2_000)
        answer = await change(c, "T", got, LONG_MS)
        header = answer.header(ChangeInvisibleTimeAnswer)
        assert (answer.code, header.invisible_time) == (ResponseCode.SUCCESS, LONG_MS)
        assert header.revive_qid == got.handle.revive_queue
        assert (await change(c, "T", got, 0)).code == ResponseCode.NO_MESSAGE
        await asyncio.sleep(2.3)
        assert await pop(c, "T") == []
        new = Got(got.message, ReceiptHandle(
            got.handle.offset, header.pop_time, LONG_MS, header.revive_qid, "0", "broker-a", 0, got.handle.offset
        ))  # fmt: skip
        assert (await ack(c, "T", new)).code == ResponseCode.SUCCESS
        assert len(c.broker.popping.consumption.revive_log.ledger) == 0

    on_broker(work, tmp_path)


@pytest.mark.parametrize("suspend", [False, True])
def test_giving_back_brings_a_message_again_at_once(tmp_path: Path, suspend: bool) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T", b"later")
        (got,) = await pop(c, "T")
        assert (await change(c, "T", got, 0, suspend=suspend)).code == ResponseCode.SUCCESS
        answer = await ask_pop(c, "T", poll_time=10_000)
        (again,) = read(answer)
        assert again.message.reconsume_times == (0 if suspend else 1)
        assert (await ack(c, "T", got)).code == ResponseCode.SUCCESS, "an old receipt is passed over"
        assert len(c.broker.popping.consumption.revive_log.ledger) == 1

    on_broker(work, tmp_path)


def test_several_are_acknowledged_together(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for number in range(12):
            await c.sent("T", b"%d" % number)
        found = await pop(c, "T")
        handle = found[0].handle
        body = (
            f'{{"acks":[{{"b":"/w4=","c":"CG","it":{LONG_MS},"pt":{handle.pop_time},"q":0,"r":"0",'
            f'"rq":{handle.revive_queue},"so":{handle.start_offset},"t":"T"}}],"brokerName":"broker-a"}}'
        ).encode()
        assert BatchAckRequest.decode(body).acks[0].topic == "T"
        assert (await c.ask(RequestCode.BATCH_ACK_MESSAGE, body=body)).code == ResponseCode.SUCCESS
        (opened,) = c.broker.popping.consumption.revive_log.ledger.due(2**62, 100)
        assert opened.pending == {8}, "0xff 0x0e: 0 to 7 and 9 to 11"
        assert (await c.ask(RequestCode.BATCH_ACK_MESSAGE)).code == ResponseCode.NO_MESSAGE

    on_broker(work, tmp_path)


def test_a_pop_waits_for_a_message_it_wants(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", 2)
        waiting = asyncio.create_task(ask_pop(c, "T", poll_time=10_000, exp="B"))
        await until(lambda: len(c.broker.popping.requests.waiting) == 1)
        info = WaitingPops(consumer_group="CG", topic="T", queue_id=-1)
        assert (await c.ask(RequestCode.POLLING_INFO, info)).header(WaitingPopsAnswer).polling_num == 1
        await c.sent("T", b"a", "TAGS\x01A\x02")
        assert len(c.broker.popping.requests.waiting) == 1
        await c.sent("T", b"b", "TAGS\x01B\x02", queue_id=1)
        (got,) = read(await waiting)
        assert got.body == b"b"
        started = time.monotonic()
        empty = await ask_pop(c, "T", poll_time=500, exp="B")
        assert (empty.code, empty.remark) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")
        assert time.monotonic() - started > 0.4
        assert c.broker.offsets.get("CG", "T", 0) == 1, "what is not wanted is passed over for good"

    on_broker(work, tmp_path)


def test_each_of_several_waiting_pops_gets_its_share(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", 2)
        waiting = [asyncio.create_task(ask_pop(c, "T", poll_time=10_000, max_msg_nums=2)) for _ in range(4)]
        await until(lambda: len(c.broker.popping.requests.waiting) == 4)
        await asyncio.gather(*(c.sent("T", b"%d" % number, queue_id=number % 2) for number in range(8)))
        shares = [read(answer) for answer in await asyncio.gather(*waiting)]
        assert all(shares), "none waits on while there are messages"
        found = [got for share in shares for got in share]
        while len(found) < 8:  # a share is small when the sends took more than one turn of the loop
            found += read(await ask_pop(c, "T", poll_time=10_000))
        assert bodies(found) == [b"%d" % number for number in range(8)]

    on_broker(work, tmp_path)


def test_too_many_may_not_wait(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        waiting = asyncio.create_task(ask_pop(c, "T", poll_time=5_000))
        await until(lambda: len(c.broker.popping.requests.waiting) == 1)
        assert (await ask_pop(c, "T", poll_time=5_000)).code == ResponseCode.POLLING_FULL
        notified = await c.ask(RequestCode.NOTIFICATION, notification("T"))
        assert notified.header(NotificationAnswer) == NotificationAnswer(has_msg=False, polling_full=True)
        await c.sent("T")
        assert len(read(await waiting)) == 1

    on_broker(work, tmp_path, pop_polling_size=1)


def notification(topic: str, **fields: object) -> Notification:
    values: dict[str, object] = {
        "consumer_group": "CG", "topic": topic, "queue_id": -1, "poll_time": 10_000, "born_time": 0
    }  # fmt: skip
    return Notification(**{**values, **fields})  # type: ignore[arg-type]


def test_notifications_say_when_a_pop_would_find_something(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        none = await c.ask(RequestCode.NOTIFICATION, notification("T", poll_time=0))
        assert none.header(NotificationAnswer).has_msg is False
        waiting = asyncio.create_task(c.ask(RequestCode.NOTIFICATION, notification("T")))
        popping = asyncio.create_task(ask_pop(c, "T", poll_time=10_000))
        await until(lambda: len(c.broker.popping.requests.waiting) == 2)
        await c.sent("T")
        assert (await waiting).header(NotificationAnswer).has_msg is True
        assert len(read(await popping)) == 1

    on_broker(work, tmp_path)


def test_peeking_takes_nothing(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        header = PeekMessage(consumer_group="CG", topic="T", queue_id=-1, max_msg_nums=8)
        assert (await c.ask(RequestCode.PEEK_MESSAGE, header)).code == ResponseCode.PULL_NOT_FOUND
        await c.sent("T", b"x")
        for _ in range(2):
            answer = await c.ask(RequestCode.PEEK_MESSAGE, header)
            assert [message.body for message in scan(answer.body)] == [b"x"]
            assert answer.header(PopMessageAnswer).rest_num == 1
        assert len(await pop(c, "T")) == 1
        assert (await c.ask(RequestCode.PEEK_MESSAGE, header)).code == ResponseCode.PULL_NOT_FOUND

    on_broker(work, tmp_path)


@pytest.mark.slow
def test_an_orderly_pop_closes_its_queue(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", 1)
        for number in range(4):
            await c.sent("T", b"%d" % number)
        first = await pop(c, "T", order=True, max_msg_nums=2, invisible_time=2_000)
        assert (bodies(first), first[0].handle.revive_queue) == ([b"0", b"1"], 999)
        assert await pop(c, "T", order=True) == []
        assert (await ack(c, "T", first[0])).code == ResponseCode.SUCCESS
        answer = await ask_pop(c, "T", order=True, max_msg_nums=2, poll_time=10_000)
        assert bodies(read(answer)) == [b"1", b"2"], "from the first that was not acknowledged, when its time is over"
        assert answer.header(PopMessageAnswer).order_count_info == "0 qo0%1 1;0 0 0"
        for got in read(answer):
            assert (await ack(c, "T", got)).code == ResponseCode.SUCCESS
        assert c.broker.offsets.get("CG", "T", 0) == 3
        assert bodies(await pop(c, "T", order=True)) == [b"3"], "open as soon as all are acknowledged"
        assert (await ack(c, "T", first[1])).code == ResponseCode.SUCCESS, "of an old batch"

    on_broker(work, tmp_path)


def test_the_same_attempt_gets_the_same_orderly_batch(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", 1)
        await c.sent("T", b"x")
        assert bodies(await pop(c, "T", order=True, attempt_id="one")) == [b"x"]
        assert await pop(c, "T", order=True, attempt_id="two") == []
        answer = await ask_pop(c, "T", order=True, attempt_id="one")
        (got,) = read(answer)
        assert answer.header(PopMessageAnswer).order_count_info == "0 0 0", "no further attempt"
        assert (await change(c, "T", got, 100)).code == ResponseCode.SUCCESS
        assert len(read(await ask_pop(c, "T", order=True, attempt_id="two", poll_time=10_000))) == 1

    on_broker(work, tmp_path)


def test_a_waiting_orderly_pop_goes_on_with_the_acknowledgement(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", 1)
        await c.sent("T", b"0")
        await c.sent("T", b"1")
        (got,) = await pop(c, "T", order=True, max_msg_nums=1)
        waiting = asyncio.create_task(ask_pop(c, "T", order=True, poll_time=20_000))
        await until(lambda: len(c.broker.popping.requests.waiting) == 1)
        await ack(c, "T", got)
        assert bodies(read(await waiting)) == [b"1"]

    on_broker(work, tmp_path)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_msg_nums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_time": -1}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": 4}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "Nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, ResponseCode.NO_PERMISSION),
        ({"consumer_group": "no group!"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"born_time": 1, "poll_time": 1}, ResponseCode.POLLING_TIMEOUT),
    ],
)
def test_refused_pops(tmp_path: Path, fields: dict[str, object], code: ResponseCode) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        answer = await c.ask(RequestCode.POP_MESSAGE, pop_header(**{"topic": "T", **fields}))  # type: ignore[arg-type]
        assert answer.code == code
        assert answer.remark

    on_broker(work, tmp_path)


def test_refused_acknowledgements(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T", b"x")
        (got,) = await pop(c, "T")
        assert (await ack(c, "T", got, topic="Nowhere")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await ack(c, "T", got, queue_id=9)).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await ack(c, "T", got, offset=5)).code == ResponseCode.NO_MESSAGE
        assert (await ack(c, "T", got, extra_info="nonsense")).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await change(c, "T", got, 5, offset=1)).code == ResponseCode.NO_MESSAGE
        assert len(c.broker.popping.consumption.revive_log.ledger) == 1
        assert (await c.ask(RequestCode.POP_ROLLBACK)).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path)


def test_where_a_new_group_begins(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", 1)
        for number in range(3):
            await c.sent("T", b"%d" % number)
        assert bodies(await pop(c, "T", init_mode=0, consumer_group="Young")) == [b"0", b"1", b"2"]

    async def last(c: Cluster) -> None:
        assert bodies(await pop(c, "T", init_mode=0, consumer_group="Last")) == [b"2"]
        assert bodies(await pop(c, "T", init_mode=1, consumer_group="First")) == [b"0", b"1", b"2"]

    on_broker(work, tmp_path)
    on_broker(last, tmp_path, init_pop_offset_by_check_msg_in_mem=False)


def test_a_reset_offset_is_obeyed(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", 1)
        for number in range(3):
            await c.sent("T", b"%d" % number)
        assert len(await pop(c, "T")) == 3
        c.broker.offsets.commit("CG", "T", 0, 1)
        assert bodies(await pop(c, "T")) == [b"1", b"2"]
        assert len(await pop(c, "T", order=True, consumer_group="O")) == 3
        c.broker.offsets.commit("O", "T", 0, 2)
        assert bodies(await pop(c, "T", order=True, consumer_group="O")) == [b"2"]

    on_broker(work, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("v2", [False, True])
def test_what_was_popped_before_a_restart_comes_back(tmp_path: Path, v2: bool) -> None:
    async def before(c: Cluster) -> None:
        for number in range(5):
            await c.sent("T", b"%d" % number)
        found = await pop(c, "T", invisible_time=3_000)
        for got in found[:3]:
            await ack(c, "T", got)

    async def after(c: Cluster) -> None:
        found: list[Got] = []

        async def both() -> bool:
            found.extend(await pop(c, "T"))
            return len(found) >= 2

        await until(both)
        assert bodies(found) == [b"3", b"4"]
        assert {got.handle.kind for got in found} == {"2" if v2 else "1"}
        for got in found:
            assert (await ack(c, "T", got)).code == ResponseCode.SUCCESS
        assert await pop(c, "T") == []

    on_broker(before, tmp_path)
    on_broker(after, tmp_path, enable_retry_topic_v2=v2, retrieve_message_from_pop_retry_topic_v1=False)


def test_only_the_broker_writes_check_points(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        assert (await c.send("rmq_sys_REVIVE_LOG_DefaultCluster")).code == ResponseCode.NO_PERMISSION

    on_broker(work, tmp_path)


def test_messages_are_chosen_by_sql(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for number in range(4):
            await c.sent("T", b"%d" % number, f"a\x01{number}\x02")
        assert bodies(await pop(c, "T", exp_type="SQL92", exp="a >= 2")) == [b"2", b"3"]
        bad = await ask_pop(c, "T", exp_type="SQL92", exp="a >=")
        assert bad.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert (await ask_pop(c, "T", exp_type="MINE", exp="x")).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    on_broker(work, tmp_path, enable_property_filter=True)


def test_a_topic_that_is_made_again_has_nothing_of_the_old_one(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for number in range(4):
            await c.sent("T", b"old %d" % number)
        (first, *_) = await pop(c, "T", invisible_time=100, max_msg_nums=2)
        await until(lambda: c.broker.store.queue_range("%RETRY%CG_T", 0)[1] == 2)
        await pop(c, "T", max_msg_nums=1, invisible_time=1_000)
        assert (await c.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic="T"))).code == ResponseCode.SUCCESS
        await until(lambda: len(c.broker.popping.consumption.revive_log.ledger) == 0)
        assert not c.broker.topics.exists("%RETRY%CG_T")
        saved = (tmp_path / "config" / "consumerOffset.json").read_text()
        assert "T@CG" not in saved
        await c.sent("T", b"new")
        assert bodies(await pop(c, "T", invisible_time=100)) == [b"new"]
        (again,) = read(await ask_pop(c, "T", poll_time=10_000))
        assert (again.body, again.message.reconsume_times) == (b"new", 1)
        assert first.body.startswith(b"old")

    on_broker(work, tmp_path)
