"""Names with and without their namespace."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.aio import Message, Producer, PullConsumer
from gantrymq.client.connection.namespaces import with_namespace, without_namespace
from tests.client.peer import run
from tests.client.real import server

NAMES = [
    ("orders", "ns%orders"),
    ("%RETRY%group", "%RETRY%ns%group"),
    ("%DLQ%group", "%DLQ%ns%group"),
    ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
    ("TBW102", "TBW102"),
    ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
]


@pytest.mark.parametrize(("name", "spaced"), NAMES)
def test_names_are_prefixed_once_and_the_systems_own_stay(name: str, spaced: str) -> None:
    assert with_namespace("ns", name) == spaced == with_namespace("ns", spaced)
    assert without_namespace("ns", spaced) == name
    assert with_namespace(None, name) == name and without_namespace(None, spaced) == spaced


@given(st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True))
def test_what_was_prefixed_comes_back(name: str) -> None:
    assert without_namespace("space", with_namespace("space", name)) == name


def test_a_pull_consumer_reads_in_its_namespace(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            server(tmp_path) as address,
            Producer("PG", name_servers=address, namespace="ns") as producer,
            PullConsumer("CG", name_servers=address, namespace="ns") as consumer,
            PullConsumer("ns%CG", name_servers=address) as plain,
        ):
            sent = await producer.send(Message("T", b"x"))
            assert sent.queue in await consumer.queues("T") and sent.queue.topic == "ns%T"
            found = await consumer.pull(sent.queue, 0)
            assert [view.topic for view in found.messages] == ["T"]
            await consumer.commit(sent.queue, 1)
            assert await plain.committed(sent.queue) == 1

    run(test)
