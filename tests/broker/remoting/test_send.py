"""Sends over real sockets: what is stored, what is answered, what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.broker.operations.admission import unique_key_of
from gantrymq.message import properties, system_topics
from gantrymq.message.message import Message, StoredMessage
from gantrymq.message.sizes import MAX_BATCH_MESSAGES
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, SerializeType
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.protocol.headers.send import SendMessageAnswer, SendMessageLong
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import scan
from gantrymq.simulation.world.disk import SimDisk
from tests.support.brokers import TIMEOUT_MS, Cluster, on_broker, send_header, until

KEY = "UNIQ_KEY\x01C0000202\x02"


async def stored(c: Cluster, topic: str, queue_id: int = 0) -> list[StoredMessage]:
    answer = await c.pull(topic, queue_id, consumer_group=system_topics.TOOLS_CONSUMER)
    return list(scan(answer.body))


def test_a_message_is_stored_with_what_the_broker_adds_and_answered_with_its_place(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        sent = await c.sent("T", b"body", f"TAGS\x01A\x02{KEY}", queue_id=2, flag=7)
        assert (sent.queue_id, sent.queue_offset, sent.transaction_id) == (2, 0, "C0000202")
        assert (sent.region, sent.trace_on) == ("DefaultRegion", "true")
        assert parse_offset_message_id(sent.msg_id)[0] == c.broker.address
        (message,) = await stored(c, "T", 2)
        assert (message.body, message.flag, message.queue_offset) == (b"body", 7, 0)
        assert properties.decode(message.properties_text) == {
            "TAGS": "A", "UNIQ_KEY": "C0000202", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }  # fmt: skip
        assert message.store_host == c.broker.address
        assert (await c.sent("T", b"next", KEY, queue_id=2)).queue_offset == 1

    on_broker(work, tmp_path)


def test_what_is_missing_is_made_up(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        first = await c.sent("T", properties="no\x01separator", queue_id=-1)
        assert first.transaction_id and len(first.transaction_id) == 32
        assert 0 <= first.queue_id < 4
        assert (await c.sent("T")).transaction_id != first.transaction_id
        (message,) = await stored(c, "T", first.queue_id) if first.queue_id else (await stored(c, "T"))[:1]
        assert properties.find(message.properties_text, "no") == "separator"
        assert properties.find(message.properties_text, "UNIQ_KEY") == first.transaction_id

    on_broker(work, tmp_path)


def test_a_key_that_needs_escaping_is_escaped(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for key in ('quo"te', "back\\slash", "ümläut", "control\x7f"):
            assert (await c.sent("T", properties=f"UNIQ_KEY\x01{key}\x02")).transaction_id == key

    on_broker(work, tmp_path)


@pytest.mark.parametrize("serialize", list(SerializeType))
def test_both_serializations_and_both_header_forms(tmp_path: Path, serialize: SerializeType) -> None:
    async def work(c: Cluster) -> None:
        short = await c.send("T", properties=KEY)
        assert short.serialize is serialize
        assert short.header(SendMessageAnswer).queue_offset == 0
        header = SendMessageLong(
            producer_group="PG", topic="T", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
            born_timestamp=1, flag=0, properties=KEY,
        )  # fmt: skip
        long = await c.ask(RequestCode.SEND_MESSAGE, header, b"go")
        assert long.header(SendMessageAnswer).queue_offset == 1

    on_broker(work, tmp_path, serialize=serialize)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("wait", ["true", "false"])
def test_both_ways_of_flushing_answer(tmp_path: Path, flush: str, wait: str) -> None:
    async def work(c: Cluster) -> None:
        for number in range(20):
            assert (await c.sent("T", properties=f"{KEY}WAIT\x01{wait}\x02")).queue_offset == number

    on_broker(work, tmp_path, flush_disk_type=flush)


def test_a_one_way_send_is_stored_and_not_answered(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        await c.client.call_oneway(c.broker.address, RequestCode.SEND_MESSAGE_V2, send_header("T", KEY), b"quiet")

        async def there() -> bool:
            return [message.body for message in await stored(c, "T")] == [b"quiet"]

        await until(there)

    on_broker(work, tmp_path)


def test_only_the_broker_sets_what_steers_a_message(tmp_path: Path) -> None:
    """X1: a sender could point a message, or the end of a transaction, at a place of its choice."""

    async def work(c: Cluster) -> None:
        forged = "".join(
            f"{name}\x01forged\x02" for name in [*sorted(properties.BROKER_ONLY), "CLUSTER", "MSG_REGION", "TRACE_ON"]
        )
        await c.sent("T", properties=f"mine\x01kept\x02{forged}{KEY}", sys_flag=0x8 | 0x80 | 0x40)
        (message,) = await stored(c, "T")
        assert properties.decode(message.properties_text) == {
            "mine": "kept", "UNIQ_KEY": "C0000202", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }  # fmt: skip
        assert message.sys_flag == 0
        assert message.prepared_transaction_offset == 0

    on_broker(work, tmp_path)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("", ResponseCode.INVALID_PARAMETER),
        ("with blank", ResponseCode.INVALID_PARAMETER),
        ("a/b", ResponseCode.INVALID_PARAMETER),
        ("x" * 128, ResponseCode.INVALID_PARAMETER),
        (system_topics.HALF, ResponseCode.NO_PERMISSION),
        (system_topics.OP, ResponseCode.NO_PERMISSION),
        (system_topics.PARKED, ResponseCode.NO_PERMISSION),
        (system_topics.SCHEDULE, ResponseCode.NO_PERMISSION),
        (system_topics.SELF_TEST, ResponseCode.NO_PERMISSION),
        (system_topics.OFFSET_MOVED, ResponseCode.NO_PERMISSION),
    ],
)
def test_topics_that_may_not_be_sent_to(tmp_path: Path, topic: str, code: ResponseCode) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.send(topic)
        assert answer.code == code
        assert answer.remark

    on_broker(work, tmp_path)


def test_bodies_of_no_bytes_and_of_too_many(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        empty = await c.send("T", b"")
        assert (empty.code, "empty" in (empty.remark or "")) == (ResponseCode.MESSAGE_ILLEGAL, True)
        large = await c.send("T", bytes(4 * 1024 * 1024 + 1))
        assert large.code == ResponseCode.MESSAGE_ILLEGAL
        assert "maxMessageSize" in (large.remark or "")
        assert (await c.send("T", bytes(4 * 1024 * 1024))).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path)


def test_properties_that_do_not_fit(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.send("T", properties=f"big\x01{'x' * 32_750}\x02")
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "32767" in (answer.remark or "")
        wide = await c.send("T", properties=f"big\x01{'中' * 11_000}\x02")
        assert wide.code == ResponseCode.MESSAGE_ILLEGAL
        assert (await c.send("T", properties=f"big\x01{'x' * 32_000}\x02")).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path)


def test_a_queue_that_does_not_exist(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.send("T", queue_id=4)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "queueId[4]" in (answer.remark or "")

    on_broker(work, tmp_path)


def test_a_topic_is_made_by_the_first_send_unless_that_is_forbidden(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("Two", default_topic_queue_nums=2)
        made = c.broker.topics.get("Two")
        assert made is not None and (made.read_queue_nums, made.write_queue_nums, made.perm) == (2, 2, 6)
        await c.sent("Many", default_topic_queue_nums=100)
        many = c.broker.topics.get("Many")
        assert many is not None and many.write_queue_nums == 8

    async def forbidden(c: Cluster) -> None:
        answer = await c.send("T")
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert (await c.send("T2", default_topic="Nobody")).code == ResponseCode.TOPIC_NOT_EXIST

    on_broker(work, tmp_path / "a")
    on_broker(forbidden, tmp_path / "b", auto_create_topic_enable=False)


def test_a_read_only_broker_takes_no_ordered_messages(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        c.broker.topics.update(TopicConfig(topic_name="Ordered", order=True, attributes={}))
        c.broker.topics.update(TopicConfig(topic_name="Plain", attributes={}))
        assert (await c.send("Ordered")).code == ResponseCode.NO_PERMISSION
        assert (await c.send("Plain")).code == ResponseCode.SUCCESS, "whoever has an old route may still send"

    on_broker(work, tmp_path, broker_permission=4)


def test_a_changed_topic_is_noticed_by_the_next_send(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        assert (await c.send("T", queue_id=5)).code == ResponseCode.INVALID_PARAMETER
        assert (await c.create_topic("T", 6)).code == ResponseCode.SUCCESS
        assert (await c.send("T", queue_id=5)).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path)


def test_a_batch_is_stored_as_its_messages(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        messages = [Message("T", f"item {number}", tags="A", flag=number) for number in range(3)]
        body = encode_batch(messages)
        answer = await c.ask(RequestCode.SEND_BATCH_MESSAGE, send_header("T", KEY, queue_id=1, batch=True), body)
        sent = answer.header(SendMessageAnswer)
        assert (sent.queue_id, sent.queue_offset, sent.transaction_id) == (1, 0, "C0000202")
        found = await stored(c, "T", 1)
        assert [message.body for message in found] == [b"item 0", b"item 1", b"item 2"]
        assert [message.flag for message in found] == [0, 1, 2]
        offsets = [parse_offset_message_id(part)[1] for part in sent.msg_id.split(",")]
        assert offsets == [message.log_offset for message in found]
        # As in 5.5.0, items get no CLUSTER, MSG_REGION and TRACE_ON; a missing UNIQ_KEY is filled in.
        assert set(properties.decode(found[0].properties_text)) == {"TAGS", "UNIQ_KEY"}

    on_broker(work, tmp_path)


@pytest.mark.parametrize(
    ("topic", "body", "code"),
    [
        ("T", b"", ResponseCode.MESSAGE_ILLEGAL),
        ("T", b"\x00\x00\x00\x05garba", ResponseCode.SYSTEM_ERROR),
        ("T", encode_batch([Message("T", "x"), Message("T", b"")]), ResponseCode.MESSAGE_ILLEGAL),
        ("T", encode_batch([Message("T", "x")]) * (MAX_BATCH_MESSAGES + 1), ResponseCode.MESSAGE_ILLEGAL),
        ("T", encode_batch([Message("T", "x", delay_level=3)]), ResponseCode.MESSAGE_ILLEGAL),
        ("%RETRY%G", encode_batch([Message("T", "x")]), ResponseCode.MESSAGE_ILLEGAL),
    ],
)
def test_batches_that_are_refused_whole(tmp_path: Path, topic: str, body: bytes, code: ResponseCode) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.ask(RequestCode.SEND_BATCH_MESSAGE, send_header(topic, KEY, batch=True), body)
        assert answer.code == code
        assert c.broker.store.max_log_offset == 0

    on_broker(work, tmp_path)


def test_a_delayed_message_waits_under_the_schedule_topic(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        sent = await c.sent("T", b"later", f"{KEY}DELAY\x0118\x02", queue_id=3)
        assert sent.queue_id == 3
        assert (await c.sent("T", b"later", f"{KEY}DELAY\x0199\x02")).queue_offset == 1, "above 18 means 18"
        found = await stored(c, system_topics.SCHEDULE, 17)
        text = found[0].properties_text
        assert properties.find(text, "REAL_TOPIC") == "T"
        assert properties.find(text, "REAL_QID") == "3"
        assert c.broker.store.queue_range("T", 3) == (0, 0)

    on_broker(work, tmp_path)


def test_timers_are_refused_without_a_wheel_and_not_delivered_at_once(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.send("T", properties=f"{KEY}TIMER_DELAY_SEC\x0110\x02")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "delay level" in (answer.remark or "")

    on_broker(work, tmp_path, timer_wheel_enable=False)


def test_a_send_to_a_retry_topic_beyond_its_limit_is_a_dead_letter(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        retry = system_topics.retry_topic("G")
        text = f"{KEY}RETRY_TOPIC\x01T\x02DELAY\x01-1\x02"
        await c.sent(retry, b"again", text, reconsume_times=1, max_reconsume_times=1)
        await c.sent(retry, b"dead", text, reconsume_times=2, max_reconsume_times=1)
        assert [message.body for message in await stored(c, retry)] == [b"again"]
        dead = await stored(c, system_topics.dead_letter_topic("G"))
        assert [(message.body, message.reconsume_times) for message in dead] == [(b"dead", 2)]

    on_broker(work, tmp_path)


def test_a_send_to_the_retry_topic_of_an_unknown_group(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.send(system_topics.retry_topic("Nobody"), properties=KEY)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    on_broker(work, tmp_path, auto_create_subscription_group=False)


HALF_TEXT = f"{KEY}TRAN_MSG\x01true\x02PGROUP\x01PG\x02"


def test_a_half_message_is_answered_and_nobody_sees_it(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        sent = await c.sent("T", b"half", HALF_TEXT, queue_id=2, sys_flag=4)
        assert (sent.queue_id, sent.queue_offset, sent.transaction_id) == (2, 0, "C0000202")
        assert await stored(c, "T", 2) == []
        (half,) = await stored(c, system_topics.HALF)
        assert half.log_offset == parse_offset_message_id(sent.msg_id)[1]

    on_broker(work, tmp_path)


@pytest.mark.parametrize(
    ("kind", "taken"),
    [(None, True), ("TRANSACTION", True), ("MIXED", True), ("NORMAL", False), ("FIFO", False), ("DELAY", False)],
)
def test_a_half_message_needs_a_topic_that_takes_it(tmp_path: Path, kind: str | None, taken: bool) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", attributes=f"+message.type={kind}" if kind else None)
        answer = await c.send("T", b"half", HALF_TEXT)
        assert (answer.code == ResponseCode.SUCCESS) is taken
        if not taken:
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL
            assert kind is not None and kind in (answer.remark or "") and "TRANSACTION" in (answer.remark or "")

    on_broker(work, tmp_path)


@pytest.mark.parametrize(
    "delay", ["DELAY\x013", "TIMER_DELAY_SEC\x015", "TIMER_DELAY_MS\x015", "TIMER_DELIVER_MS\x015"]
)
def test_a_half_message_cannot_be_delayed(tmp_path: Path, delay: str) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.send("T", b"half", f"{HALF_TEXT}{delay}\x02")
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert delay.partition("\x01")[0] in (answer.remark or "")

    on_broker(work, tmp_path)


def test_a_half_message_that_could_not_be_parked_later_is_refused(tmp_path: Path) -> None:
    """X2: its properties would have no room for what parking adds."""

    async def work(c: Cluster) -> None:
        room = 32767 - 1024 - len(HALF_TEXT)
        answer = await c.send("T", b"half", f"{HALF_TEXT}big\x01{'x' * room}\x02")
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert (await c.send("T", b"half", f"{HALF_TEXT}big\x01{'x' * (room - 200)}\x02")).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path)


@pytest.mark.parametrize("group", ["", "two words", "a\x01b", "x" * 200])
def test_a_half_message_whose_producer_could_never_be_asked_is_refused(tmp_path: Path, group: str) -> None:
    async def work(c: Cluster) -> None:
        nameless = f"{KEY}TRAN_MSG\x01true\x02"
        answer = await c.send("T", b"half", nameless, producer_group=group)
        assert (answer.code, "group" in (answer.remark or "")) == (ResponseCode.MESSAGE_ILLEGAL, True)
        assert (await c.send("T", b"half", nameless, producer_group="PG")).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path)


def test_transactions_can_be_switched_off(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        assert (await c.send("T", b"half", HALF_TEXT)).code == ResponseCode.NO_PERMISSION

    on_broker(work, tmp_path, reject_transaction_message=True)


@pytest.mark.parametrize(
    ("text", "now"),
    [
        ("WAIT\x01false\x02", True),
        ("a\x01b\x02WAIT\x01false", True),
        ("AWAIT\x01false\x02", False),
        ("WAIT\x01false\x02WAIT\x01true\x02", False),
        ("a\x01WAIT\x01false\x02", False),
        ("", False),
    ],
)
def test_only_who_says_so_is_answered_before_the_sync(text: str, now: bool) -> None:
    disk = SimDisk()

    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        disk.hold_syncs = True
        waiting = asyncio.ensure_future(c.send("T", properties=text))
        if now:
            assert (await waiting).code == ResponseCode.SUCCESS
        else:
            await until(lambda: disk.held > 0)
            await asyncio.sleep(0.05)
            assert not waiting.done()
        disk.hold_syncs = False
        while disk.held:
            disk.release_sync()
        assert (await waiting).code == ResponseCode.SUCCESS

    on_broker(work, "/store", disk=disk)


@pytest.mark.parametrize(
    ("more", "sys_flag", "taken"),
    [("", 0, 5), ("TRAN_MSG\x01true\x02PGROUP\x01PG\x02", 4, 4)],  # halves are longer
    ids=["plain", "halves"],
)
def test_a_stalled_disk_ends_in_refusals_and_not_in_a_full_memory(more: str, sys_flag: int, taken: int) -> None:
    disk = SimDisk()

    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        c.broker.operations.sending.one._durability._max_waiting_bytes = 5_000
        disk.hold_syncs = True
        sends: list[asyncio.Future[Command]] = []
        try:
            for n in range(10):  # one a turn: what one turn brings is counted when it is written
                before = c.broker.store.appended
                text = f"UNIQ_KEY\x01K{n}\x02{more}"
                sends.append(asyncio.ensure_future(c.send("T", bytes(1000), text, sys_flag=sys_flag)))
                await until(lambda before=before: c.broker.store.appended > before or sends[-1].done())  # type: ignore[misc]
        finally:
            disk.hold_syncs = False
            while disk.held:
                disk.release_sync()
        answers = [answer.code for answer in await asyncio.gather(*sends)]
        assert answers == [ResponseCode.SUCCESS] * taken + [ResponseCode.SYSTEM_BUSY] * (10 - taken)
        assert (await c.send("T")).code == ResponseCode.SUCCESS

    on_broker(work, "/store", disk=disk)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", ""),
        ("UNIQ_KEY\x01A\x02", "A"),
        ("UNIQ_KEY\x01A", "A"),
        ("X\x01Y\x02UNIQ_KEY\x01A\x02Z\x01", "A"),
        ("MY_UNIQ_KEY\x01A\x02", ""),
        ("UNIQ_KEY\x01A\x02UNIQ_KEY\x01B\x02", "B"),
        ("UNIQ_KEY\x01\x02", ""),
    ],
)
def test_the_unique_key_of_a_text(text: str, key: str) -> None:
    assert unique_key_of(text) == key == (properties.find(text, "UNIQ_KEY") or "")


def test_an_answer_does_not_come_before_the_message_is_readable(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for number in range(50):
            await c.client.call(
                c.broker.address, RequestCode.SEND_MESSAGE_V2, send_header("T", KEY), b"x", timeout_ms=TIMEOUT_MS
            )
            assert c.broker.store.queue_range("T", 0) == (0, number + 1)

    on_broker(work, tmp_path)


def test_a_topic_that_a_send_made_is_known_to_name_servers_when_the_send_is_answered(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        assert c.name_server is not None
        for number in range(30):
            await c.sent(f"Made{number}")
            header = GetRoute(topic=f"Made{number}")
            code = RequestCode.GET_ROUTEINFO_BY_TOPIC
            route = await c.client.call(c.name_server.address, code, header, timeout_ms=TIMEOUT_MS)
            assert route.code == ResponseCode.SUCCESS

    on_broker(work, tmp_path, with_name_server=True)
