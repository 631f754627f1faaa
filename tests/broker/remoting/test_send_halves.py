"""Many half messages in one request, and many ends: each is a transaction of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.message import properties
from gantrymq.message.message import Message
from gantrymq.message.transaction import HalfEnd, Resolution
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.halves import decode_codes, decode_places, encode_ends
from gantrymq.protocol.headers.transaction import EndHalves
from gantrymq.protocol.stored_message import decode_record
from gantrymq.transactions.table import open_halves
from tests.support.brokers import Cluster, on_broker, send_header

COMMON = properties.encode({"TRAN_MSG": "true", "PGROUP": "PG", "CHECK_IMMUNITY_TIME_IN_SECONDS": "600"})
Places = list[tuple[int, int]]


def halves(*keys: str, body: str = "b-", **more: str) -> bytes:
    messages = []
    for key in keys:
        message = Message("Orders", body + key, tags="paid", properties=more)
        message.properties[properties.UNIQ_KEY] = key
        messages.append(message)
    return encode_batch(messages)


async def send(cluster: Cluster, body: bytes, common: str = COMMON) -> Command:
    return await cluster.ask(RequestCode.SEND_HALVES, send_header("Orders", common, queue_id=1), body)


async def sent(cluster: Cluster, *keys: str) -> Places:
    answer = await send(cluster, halves(*keys))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return decode_places(answer.body)


async def end(cluster: Cluster, ends: list[HalfEnd], resolution: Resolution) -> list[int]:
    header = EndHalves(producer_group="PG", commit_or_rollback=int(resolution))
    answer = await cluster.ask(RequestCode.END_HALVES, header, encode_ends(ends))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return list(decode_codes(answer.body))


async def bodies(cluster: Cluster) -> list[str]:
    found: list[str] = []
    while data := (await cluster.pull("Orders", 1, len(found))).body:
        while data:
            size = int.from_bytes(data[:4], "big")
            found.append(decode_record(data[:size]).body.decode())
            data = data[size:]
    return found


def named(keys: str, places: Places) -> list[HalfEnd]:
    return [HalfEnd(*place, key) for key, place in zip(keys, places, strict=True)]


def test_each_half_message_is_ended_as_it_is_told(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_topic("Orders")
        places = await sent(cluster, *"abc")
        assert [offset for offset, _ in places] == [0, 1, 2]
        assert await bodies(cluster) == []
        first, second, third = named("abc", places)
        assert await end(cluster, [first, third], Resolution.COMMIT) == [0, 0]
        assert await end(cluster, [second], Resolution.ROLLBACK) == [0]
        assert await bodies(cluster) == ["b-a", "b-c"]

    on_broker(work, tmp_path)


def test_both_requests_may_be_repeated(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_topic("Orders")
        places = await sent(cluster, *"ab")
        assert await sent(cluster, *"ab") == places
        for _ in range(2):
            assert await end(cluster, named("ab", places), Resolution.COMMIT) == [0, 0]
        assert await bodies(cluster) == ["b-a", "b-b"]
        conflict, success = ResponseCode.ILLEGAL_OPERATION, ResponseCode.SUCCESS
        assert await end(cluster, named("ab", places), Resolution.ROLLBACK) == [conflict, conflict]
        unknown = [HalfEnd(77, 77, "z"), *named("a", places[:1])]
        assert await end(cluster, unknown, Resolution.COMMIT) == [ResponseCode.SYSTEM_ERROR, success]

    on_broker(work, tmp_path)


def test_the_immunity_of_the_request_holds_for_each(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_topic("Orders")
        await sent(cluster, *"ab")
        table = cluster.broker.operations.transactions.table
        assert [table.get(offset).immunity_ms for offset in (0, 1)] == [600_000, 600_000]  # type: ignore[union-attr]

    on_broker(work, tmp_path)


@pytest.mark.parametrize(
    ("body", "common", "reason"),
    [
        (b"", COMMON, "the body is empty"),
        (encode_batch([Message("Orders", "x")]), COMMON, "a UNIQ_KEY"),
        (halves("a"), "", "must name the producer group"),
        (halves("a"), "PGROUP\x01PG\x02", "must name the producer group"),
        (halves("a"), COMMON + "DELAY\x013\x02", "cannot be delayed"),
        (encode_batch([Message("Orders", "x", delay_level=3)]), COMMON, "only the request may have"),
    ],
)
def test_what_cannot_be_a_half_message_is_refused(tmp_path: Path, body: bytes, common: str, reason: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_topic("Orders")
        answer = await send(cluster, body, common)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert reason in (answer.remark or "")

    on_broker(work, tmp_path)


def test_another_message_under_the_key_of_an_open_one_is_refused(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_topic("Orders")
        await sent(cluster, *"ab")
        answer = await send(cluster, halves("c", "a", body="other-"))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "still open" in (answer.remark or "")

    on_broker(work, tmp_path)


@pytest.mark.pure("a limit is replaced, which is a constant of the compiled module")
def test_half_messages_that_left_memory_are_committed_as_they_were_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many open half messages do not fit into memory; their records are read again when they are ended."""
    monkeypatch.setattr(open_halves, "KEPT_RECORDS_BYTES", 1_000)

    async def work(cluster: Cluster) -> None:
        await cluster.create_topic("Orders")
        keys = [f"key-{number}" for number in range(200)]
        places = await sent(cluster, *keys)
        table = cluster.broker.operations.transactions.table
        assert sum(half.record is None for half in table) > 150
        ends = [HalfEnd(*place, key) for key, place in zip(keys, places, strict=True)]
        some, rest = ends[1::2], ends[0::2]
        assert await end(cluster, some, Resolution.COMMIT) == [0] * 100
        assert await end(cluster, [*ends, HalfEnd(900, 900, "z")], Resolution.COMMIT) == [0] * 200 + [
            ResponseCode.SYSTEM_ERROR
        ]
        assert await bodies(cluster) == [f"b-{half.unique_key}" for half in [*some, *rest]]
        assert len(table) == 0

    on_broker(work, tmp_path)
