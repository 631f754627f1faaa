"""Offsets of queues and groups, and finding messages, over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.protocol import lenient_json
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.consumer import QueryConsumerOffset, UpdateConsumerOffset
from gantrymq.protocol.headers.pull import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    QueryMessage,
    QueryMessageAnswer,
    SearchOffset,
    StoreTimeAnswer,
    ViewMessage,
)
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import decode_record, scan
from tests.support.brokers import Cluster, cluster, on_broker, until
from tests.support.places import run

FOREVER = 2**62


def query(topic: str = "T", queue_id: int = 0, **fields: object) -> QueryConsumerOffset:
    return QueryConsumerOffset(consumer_group="CG", topic=topic, queue_id=queue_id, **fields)  # type: ignore[arg-type]


def update(offset: int, topic: str = "T", queue_id: int = 0) -> UpdateConsumerOffset:
    return UpdateConsumerOffset(consumer_group="CG", topic=topic, queue_id=queue_id, commit_offset=offset)


def test_queue_bounds_and_times(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        for code, header in (
            (RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic="T", queue_id=0)),
            (RequestCode.GET_MIN_OFFSET, GetMinOffset(topic="T", queue_id=0)),
        ):
            assert (await c.ask(code, header)).header(OffsetAnswer).offset == 0
        empty = await c.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, GetEarliestStoreTime(topic="T", queue_id=0))
        assert empty.header(StoreTimeAnswer).timestamp == -1
        for _ in range(3):
            await c.sent("T")
        assert (await c.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic="T", queue_id=0))).header(
            OffsetAnswer
        ).offset == 3
        stored = list(scan((await c.pull("T")).body))
        earliest = await c.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, GetEarliestStoreTime(topic="T", queue_id=0))
        assert earliest.header(StoreTimeAnswer).timestamp == stored[0].store_timestamp

        async def search(timestamp: int, boundary: str | None = None) -> int:
            header = SearchOffset(topic="T", queue_id=0, timestamp=timestamp, boundary_type=boundary)
            return (await c.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)).header(OffsetAnswer).offset

        assert await search(stored[0].store_timestamp) == 0
        assert await search(stored[2].store_timestamp + 1) == 3
        assert await search(stored[2].store_timestamp + 1, "UPPER") == 2

    on_broker(work, tmp_path)


def test_a_group_that_never_committed_starts_at_zero_of_a_young_queue_and_is_told_so_otherwise(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T")
        assert (await c.ask(RequestCode.QUERY_CONSUMER_OFFSET, query())).header(OffsetAnswer).offset == 0
        strict = await c.ask(RequestCode.QUERY_CONSUMER_OFFSET, query(set_zero_if_not_found=False))
        assert strict.code == ResponseCode.QUERY_NOT_FOUND
        assert (await c.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update(1))).code == ResponseCode.SUCCESS
        assert (await c.ask(RequestCode.QUERY_CONSUMER_OFFSET, query())).header(OffsetAnswer).offset == 1
        await c.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update(0))
        assert (await c.ask(RequestCode.QUERY_CONSUMER_OFFSET, query())).header(OffsetAnswer).offset == 0, "may go back"
        everything = await c.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert lenient_json.loads(everything.body)["offsetTable"]["T@CG"] == {"0": 0}

    on_broker(work, tmp_path)


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (update(1, topic="Nowhere"), ResponseCode.TOPIC_NOT_EXIST),
        (update(-1), ResponseCode.INVALID_PARAMETER),
        (update(1, queue_id=-1), ResponseCode.INVALID_PARAMETER),
    ],
)
def test_offsets_that_cannot_be(tmp_path: Path, header: UpdateConsumerOffset, code: ResponseCode) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        assert (await c.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == code

    on_broker(work, tmp_path)


def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path) as c:
            await c.sent("T")
            await c.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update(1))
        async with cluster(tmp_path) as c:
            assert (await c.ask(RequestCode.QUERY_CONSUMER_OFFSET, query())).header(OffsetAnswer).offset == 1
            assert (await c.sent("T")).queue_offset == 1

    run(work())


def test_messages_are_found_by_key_by_unique_key_and_by_place(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        sent = await c.sent("T", b"found", "KEYS\x01order-1 customer-9\x02UNIQ_KEY\x01C0FFEE\x02")
        await c.sent("T", b"other", "KEYS\x01order-2\x02")

        async def find(key: str, **extra: str) -> list[bytes]:
            header = QueryMessage(topic="T", key=key, max_num=10, begin_timestamp=0, end_timestamp=FOREVER)
            answer = await c.ask(RequestCode.QUERY_MESSAGE, header, extra=extra)
            answer.header(QueryMessageAnswer)
            return [message.body for message in scan(answer.body)]

        async def indexed() -> bool:
            return await find("order-1") == [b"found"]

        await until(indexed)
        assert await find("customer-9") == [b"found"]
        assert await find("C0FFEE", _UNIQUE_KEY_QUERY="true") == [b"found"]
        assert await find("order-3") == []
        view = ViewMessage(offset=parse_offset_message_id(sent.msg_id)[1])
        assert decode_record((await c.ask(RequestCode.VIEW_MESSAGE_BY_ID, view)).body).body == b"found"

    on_broker(work, tmp_path)


def test_a_place_inside_a_body_is_no_message(tmp_path: Path) -> None:
    """Hole 21: a body can hold the bytes of a record."""

    async def work(c: Cluster) -> None:
        inner = await c.sent("T", b"inner")
        offset = parse_offset_message_id(inner.msg_id)[1]
        record = (await c.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=offset))).body
        outer = parse_offset_message_id((await c.sent("T", record)).msg_id)[1]
        for inside in (outer + 88, outer + 1, 10_000_000, -1):
            answer = await c.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=inside))
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert str(inside) in (answer.remark or "")

    on_broker(work, tmp_path)
