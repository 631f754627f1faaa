"""Every request, even a malformed one, gets a proper answer, and causes no internal error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gantrymq.message import system_topics
from gantrymq.message.message import Message
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, decode_command, encode_command
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.registry import REQUEST_HEADERS
from tests.support.brokers import Cluster, cluster
from tests.support.doors import remoting
from tests.support.places import run

NUMBERS = st.sampled_from(
    ["0", "1", "3", "-1", "4", "255", str(2**31 - 1), str(-(2**31)), str(2**31), str(2**63 - 1), str(2**63), "1.5", "x"]
)
SYSTEM = [system_topics.HALF, system_topics.OP, system_topics.PARKED, system_topics.SCHEDULE]
TOPICS = st.sampled_from(["T", "", "TBW102", "%RETRY%CG", "%RETRY%", "%DLQ%CG", "no topic", "x" * 300, *SYSTEM])
NAMES = ["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "TRAN_MSG", "PGROUP", "REAL_TOPIC", "REAL_QID", "WAIT", "TIMER_DELAY_SEC",
         "CLUSTER", "POP_CK", "CHECK_IMMUNITY_TIME_IN_SECONDS", "a", ""]  # fmt: skip
WORDS = ["", "true", "false", "3", "-3", "9" * 20, "PG", "\x01", "ü", '"', "\\", "T", "0"]
PROPERTIES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(WORDS)), max_size=5).map(
    lambda items: "".join(f"{name}\x01{value}\x02" for name, value in items)
)
VALUES = NUMBERS | TOPICS | PROPERTIES | st.sampled_from(["true", "false", "CG", "A || B"]) | st.text(max_size=20)
BODIES = st.binary(max_size=60) | st.sampled_from([
    b"", b"{}", b"[]", b"null", b"x" * 3000, b'{"clientID":"c"}', b'{"clientId":"c","consumerGroup":"CG"}',
    b'{"clientID":"c","consumerDataSet":[{"groupName":"CG","subscriptionDataSet":[{"topic":"T"}]}]}',
    b'{"clientID":"c","producerDataSet":[{"groupName":"PG"}]}',
    b'{"clientId":"c","consumerGroup":"CG","mqSet":[{"topic":"T","brokerName":"b","queueId":0}]}',
    b'{"groupName":"CG","retryQueueNums":-5,"retryMaxTimes":-1}',
    encode_batch([Message("T", "one"), Message("T", "two", tags="A")]),
])  # fmt: skip
ORDINARY_BY_NAME = {
    "i": "UNIQ_KEY\x01K\x02",
    "properties": "UNIQ_KEY\x01K\x02",
    "a": "PG",
    "producerGroup": "PG",
    "c": "TBW102",
    "defaultTopic": "TBW102",
    "d": "4",
    "defaultTopicQueueNums": "4",
    "consumerGroup": "CG",
    "group": "CG",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "attributes": "",
    "commitOrRollback": "8",
    "maxMsgNums": "32",
    "subscription": "*",
    "expressionType": "TAG",
    "msgId": "K",
    "batch": "false",
    "m": "false",
}


def ordinary(code: int) -> dict[str, str]:
    """Extension fields that the request is executed with."""
    kind = REQUEST_HEADERS.get(RequestCode(code))
    if kind is None:
        return {}
    types = zip(kind.__struct_encode_fields__, msgspec.structs.fields(kind), strict=True)
    return {name: ORDINARY_BY_NAME.get(name, "T" if "str" in str(field.type) else
                                    "true" if "bool" in str(field.type) else "0") for name, field in types}  # fmt: skip


@st.composite
def requests(draw: st.DrawFn, codes: list[int]) -> Command:
    """A request that is right, except perhaps for some fields."""
    code = draw(st.sampled_from(codes))
    ext = ordinary(code)
    for name in draw(st.lists(st.sampled_from(sorted(ext)), max_size=3)) if ext else ():
        if draw(st.booleans()):
            ext[name] = draw(PROPERTIES if name in ("i", "properties") else VALUES)
        else:
            ext.pop(name, None)
    return Command(
        code=code, opaque=draw(st.integers(0, 5)), flag=draw(st.sampled_from([0, 0, 0, 2])),
        version=draw(st.sampled_from([0, 100, 407, 513])), ext=ext, body=draw(BODIES),
    )  # fmt: skip


@contextmanager
def no_defects(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        yield
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def play(c: Cluster, commands: list[Command]) -> None:
    """Every request that is not one-way is answered, or held."""
    frames = b"".join(encode_command(command) for command in commands)
    assert all(decode_command(*frame) for frame in FrameSplitter().feed(frames))
    host, _, port = c.broker.address.rpartition(":")
    _reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(frames)
    await writer.drain()
    # The answer to this one says that all before it were executed.
    answer = await c.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    assert answer.code == 0
    writer.close()


@pytest.mark.slow
def test_any_request_is_answered_without_a_defect(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    running = cluster(tmp_path, message_delay_level="1s 2s", flush_disk_type="ASYNC_FLUSH")
    c = loop.run_until_complete(running.__aenter__())
    codes = sorted(remoting(c.broker).handlers)
    codes += [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2] * (len(codes) // 8)

    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(requests(codes), min_size=1, max_size=8))
    def check(commands: list[Command]) -> None:
        with no_defects(caplog):
            loop.run_until_complete(play(c, commands))

    try:
        check()
        assert c.broker.store.max_log_offset > 0, "some of it was good enough to be stored"
    finally:
        loop.run_until_complete(running.__aexit__(None, None, None))
        loop.close()


def test_the_table_of_contents_is_known_to_the_protocol(tmp_path: Path) -> None:
    """Every request the broker answers has a code with a name."""

    async def work() -> None:
        async with cluster(tmp_path) as c:
            assert all(code in RequestCode.__members__.values() for code in remoting(c.broker).handlers)

    run(work())
