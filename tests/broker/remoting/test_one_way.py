"""Requests that are answered after their handler has returned: nobody waits for the answer to a one-way one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, Header, encode_request
from gantrymq.protocol.connection import Connection
from gantrymq.protocol.headers.pop import Notification
from gantrymq.protocol.headers.tools import ExplainTransaction, GetConsumerStatus
from gantrymq.protocol.headers.topics import CreateTopic, TopicOnly
from gantrymq.runtime.addresses import split_address
from tests.broker.remoting.test_pop import pop_header
from tests.support.brokers import INLINE_SUBSCRIPTION, SUSPEND, Cluster, on_broker, pull_header, until

LONG_MS = 20_000
ONE_WAY, ASKED = 1, 2
"""Opaques of the two requests of a test: the same request twice, and only the second one wants an answer."""


async def first_answer(c: Cluster, one_way: bytes, asked: bytes, messages: int) -> Command:
    """What arrives first after both requests; ``messages`` are sent once both are held."""
    reader, writer = await asyncio.open_connection(*split_address(c.broker.address))
    try:
        writer.write(one_way + asked)
        if messages:
            held = c.broker.operations.consuming
            await until(lambda: len(held.pulls.held) + len(held.popping.requests.waiting) == 2)
        for _ in range(messages):
            await c.sent("T")
        connection: Connection[None] = Connection()
        while True:
            for command in connection.receive(await reader.read(65_536)):
                return command
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("code", "header", "messages"),
    [
        (
            RequestCode.PULL_MESSAGE,
            pull_header("T", sys_flag=SUSPEND | INLINE_SUBSCRIPTION, suspend_timeout_millis=LONG_MS),
            1,
        ),
        (RequestCode.POP_MESSAGE, pop_header("T", poll_time=LONG_MS), 2),
        (
            RequestCode.NOTIFICATION,
            Notification(consumer_group="CG", topic="T", queue_id=-1, poll_time=LONG_MS, born_time=0),
            2,
        ),
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            CreateTopic(
                topic="U", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
                topic_filter_type="SINGLE_TAG", order=False,
            ),
            0,
        ),
        (RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic="T"), 0),
        (
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            GetConsumerStatus(topic="T", group="CG"),
            0,
        ),
        (RequestCode.EXPLAIN_TRANSACTION, ExplainTransaction(transaction_id="none"), 0),
    ],
)  # fmt: skip
def test_a_one_way_request_gets_no_late_answer(
    tmp_path: Path, code: RequestCode, header: Header, messages: int
) -> None:  # fmt: skip
    async def work(c: Cluster) -> None:
        await c.create_topic("T", queues=1)
        answer = await first_answer(
            c, encode_request(code, ONE_WAY, header, one_way=True), encode_request(code, ASKED, header), messages
        )
        assert answer.opaque == ASKED, answer.remark

    on_broker(work, tmp_path)


def test_a_one_way_pop_that_finds_a_message_at_once_is_not_answered(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T", queues=1)
        for body in (b"one", b"two"):
            await c.sent("T", body)
        header = pop_header("T", max_msg_nums=1)
        one_way = encode_request(RequestCode.POP_MESSAGE, ONE_WAY, header, one_way=True)
        answer = await first_answer(c, one_way, encode_request(RequestCode.POP_MESSAGE, ASKED, header), 0)
        assert answer.opaque == ASKED
        assert b"two" in answer.body, "the one-way request popped the first message"

    on_broker(work, tmp_path)
