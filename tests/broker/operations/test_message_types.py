"""Each type of a topic with each kind of message, through each door by which messages come in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gantrymq.broker.operations.message_types import ACCEPTED, EVERY_KIND
from gantrymq.broker.refusal import Refused
from gantrymq.broker.submission import Stored
from gantrymq.message import properties, system_topics
from gantrymq.message.message import Message
from gantrymq.message.message_types import DELAY, FIFO, LITE, NAMES, NORMAL, PRIORITY, TOPIC_TYPES, TRANSACTION
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.runtime.clock import SystemClock
from tests.broker.remoting.test_send import on_broker
from tests.support.brokers import Cluster, send_header
from tests.support.connections import KeptConnection

TEXTS = {
    NORMAL: "a\x011\x02",
    FIFO: "__SHARDINGKEY\x01order-7\x02",
    DELAY: "DELAY\x013\x02",
    TRANSACTION: "TRAN_MSG\x01true\x02PGROUP\x01PG\x02",
    PRIORITY: "_SYS_MSG_PRIORITY_\x012\x02",
    LITE: "__LITE_TOPIC\x01basket-7\x02",
}
DELAYS = (
    "TIMER_DELAY_SEC\x01500\x02", "TIMER_DELAY_MS\x01500000\x02",
    f"TIMER_DELIVER_MS\x01{SystemClock().wall_ms() + 500_000}\x02",
)  # fmt: skip
TAKEN = {
    None: EVERY_KIND,
    "NORMAL": {NORMAL},
    "FIFO": {FIFO, NORMAL},
    "DELAY": {DELAY},
    "TRANSACTION": {TRANSACTION},
    "PRIORITY": {PRIORITY, NORMAL},
    "LITE": {LITE},
    "MIXED": EVERY_KIND,
    "UNSPECIFIED": EVERY_KIND,
}
"""What docs/protocol.md promises, written down once more."""

Answer = tuple[int, str]


def text_of(kind: int, number: int) -> str:
    sys_key = f"UNIQ_KEY\x01K{NAMES[kind].upper()}{number}\x02"
    return TEXTS[kind] + sys_key


def item(topic: str, kind: int, number: int) -> Message:
    message = Message(topic, b"x")
    message.properties.update(properties.decode(text_of(kind, number)))
    return message


async def plain(code: RequestCode, c: Cluster, topic: str, kind: int) -> Answer | None:
    answer = await c.send(topic, b"x", text_of(kind, 1), code=code, sys_flag=4 if kind == TRANSACTION else 0)
    return answer.code, answer.remark or ""


async def by_long_names(c: Cluster, topic: str, kind: int) -> Answer | None:
    from gantrymq.protocol.headers.send import SendMessageLong

    short = send_header(topic, text_of(kind, 2))
    names = ("producer_group", "topic", "default_topic", "default_topic_queue_nums", "queue_id", "sys_flag",
             "born_timestamp", "flag", "properties", "reconsume_times", "unit_mode", "batch")  # fmt: skip
    long = SendMessageLong(**{name: getattr(short, name) for name in names})
    answer = await c.ask(RequestCode.SEND_MESSAGE, long, b"x")
    return answer.code, answer.remark or ""


async def batched(c: Cluster, topic: str, kind: int) -> Answer | None:
    if kind in (DELAY, TRANSACTION, LITE):
        return None  # a batch cannot hold it, whatever the topic is
    body = encode_batch([item(topic, kind, 3), item(topic, kind, 4)])
    answer = await c.ask(RequestCode.SEND_BATCH_MESSAGE, send_header(topic, batch=True), body)
    return answer.code, answer.remark or ""


async def halves(c: Cluster, topic: str, kind: int) -> Answer | None:
    if kind != TRANSACTION:
        return None
    body = encode_batch([item(topic, NORMAL, 5)])  # the request has the rest
    answer = await c.ask(RequestCode.SEND_HALVES, send_header(topic, TEXTS[kind]), body)
    return answer.code, answer.remark or ""


async def in_process(c: Cluster, topic: str, kind: int) -> Answer | None:
    answered: asyncio.Future[Stored | Refused] = asyncio.get_running_loop().create_future()
    try:
        submission = send_header(topic, text_of(kind, 6))
        c.broker.operations.sending.one.send(KeptConnection(), submission, b"x", answered.set_result)
    except Refused as refused:
        return int(ResponseCode.MESSAGE_ILLEGAL), refused.remark
    stored = await answered
    return int(ResponseCode.SUCCESS), stored.remark if isinstance(stored, Refused) else ""


Door = Callable[[Cluster, str, int], Awaitable[Answer | None]]
DOORS: dict[str, Door] = {
    "SEND_MESSAGE": by_long_names,
    "SEND_MESSAGE_V2": lambda c, topic, kind: plain(RequestCode.SEND_MESSAGE_V2, c, topic, kind),
    "SEND_BATCH_MESSAGE": batched,
    "SEND_HALVES": halves,
    "in this process": in_process,
}


def test_the_table_has_every_type_that_a_topic_can_have() -> None:
    assert set(ACCEPTED) == set(TOPIC_TYPES) == set(TAKEN) - {None}
    assert all(ACCEPTED[name] == kinds for name, kinds in TAKEN.items() if name is not None)


@pytest.mark.parametrize("message_type", TAKEN)
def test_a_topic_takes_the_messages_of_its_type_only(message_type: str | None, tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", attributes=f"+message.type={message_type}" if message_type else None)
        for name, door in DOORS.items():
            for kind in range(len(NAMES)):
                answer = await door(c, "T", kind)
                if answer is None:
                    continue
                if kind in TAKEN[message_type]:
                    assert answer == (ResponseCode.SUCCESS, ""), (name, kind)
                    continue
                assert answer[0] == ResponseCode.MESSAGE_ILLEGAL, (name, kind)
                if kind == LITE and TAKEN[message_type] == EVERY_KIND:
                    assert answer[1].startswith("the topic T has no lite topics"), name
                    continue
                expected = f"the expected type is {message_type}, but actual type is {NAMES[kind].upper()}"
                assert answer[1].startswith(f"TopicMessageType validate failed, {expected}"), (name, kind)
        for delay in DELAYS:
            answer_code = (await c.send("T", b"x", delay)).code
            taken = DELAY in TAKEN[message_type]
            assert answer_code == (ResponseCode.SUCCESS if taken else ResponseCode.MESSAGE_ILLEGAL), delay

    on_broker(work, tmp_path)


def test_retries_and_dead_letters_have_no_type(tmp_path: Path) -> None:
    """What failed goes there, whatever it was."""

    async def work(c: Cluster) -> None:
        for topic in (system_topics.retry_topic("CG"), system_topics.dead_letter_topic("CG")):
            await c.create_topic(topic, attributes="+message.type=TRANSACTION")
            assert (await c.send(topic, b"x", TEXTS[NORMAL])).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path)


def test_a_change_of_the_type_counts_for_the_next_message(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", attributes="+message.type=TRANSACTION")
        assert (await c.send("T", b"x")).code == ResponseCode.MESSAGE_ILLEGAL
        await c.create_topic("T", attributes="+message.type=MIXED")
        assert (await c.send("T", b"x")).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path)


def test_the_check_can_be_switched_off(tmp_path: Path) -> None:
    """Then types are only kept, as in Apache's broker."""

    async def work(c: Cluster) -> None:
        await c.create_topic("T", attributes="+message.type=DELAY")
        for kind in sorted(EVERY_KIND):
            assert await plain(RequestCode.SEND_MESSAGE_V2, c, "T", kind) == (ResponseCode.SUCCESS, "")

    on_broker(work, tmp_path, enable_topic_message_type_check=False)
