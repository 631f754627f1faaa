"""Requests as clients in other languages write them, because a broker must serve more than the Java client.

Headers here are written by hand. Source: docs/protocol.md#headers, docs/protocol.md#what-clients-send-and-when.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.addresses import split_address
from tests.support.brokers import Cluster, on_broker

PREFIX = Struct(">II")
SEND = {
    "topic": "T", "queueId": "1", "producerGroup": "PG", "sysFlag": "0", "flag": "0", "bornTimestamp": "1700000000000",
    "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
}  # fmt: skip
PULL = {
    "consumerGroup": "CG", "topic": "T", "queueId": "1", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "0",
    "commitOffset": "0", "suspendTimeoutMillis": "20000", "subscription": "", "subVersion": "0",
    "expressionType": "TAG",
}  # fmt: skip
GO = {"language": "GO", "version": 317, "flag": 0, "remark": ""}


class Raw:
    """A connection on which anything can be said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, header: dict[str, Any] | str, body: bytes = b"") -> None:
        text = (header if isinstance(header, str) else json.dumps(header)).encode()
        self._writer.write(PREFIX.pack(4 + len(text) + len(body), len(text)) + text + body)

    async def hear(self) -> tuple[dict[str, Any], bytes]:
        total, header_size = PREFIX.unpack(await self._reader.readexactly(8))
        data = await self._reader.readexactly(total - 4)
        return json.loads(data[:header_size]), data[header_size:]

    async def ask(self, header: dict[str, Any] | str, body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        self.say(header, body)
        return await self.hear()


def on_connection(work: Callable[[Raw, Cluster], Awaitable[None]], root: Path) -> None:
    async def connected(c: Cluster) -> None:
        host, port = split_address(c.broker.address)
        reader, writer = await asyncio.open_connection(host, port)
        try:
            await work(Raw(reader, writer), c)
        finally:
            writer.close()

    on_broker(connected, root)


def test_a_round_of_the_go_client(tmp_path: Path) -> None:
    """Long names, code 10, tag codes as text, subscription versions in nanoseconds, nothing inline in pulls."""

    async def work(raw: Raw, c: Cluster) -> None:
        fields = SEND | {"properties": "TAGS\x01TagA\x02UNIQ_KEY\x01K1\x02", "maxReconsumeTimes": "0", "bname": "b"}
        fields |= {"reconsumeTimes": "0", "unitMode": "false", "batch": "false"}
        answer, _ = await raw.ask({"code": RequestCode.SEND_MESSAGE, "opaque": 1, "extFields": fields, **GO}, b"hello")
        assert (answer["code"], answer["opaque"], answer["flag"]) == (0, 1, 1)
        assert len(answer["extFields"]["msgId"]) == 32 and answer["extFields"]["queueOffset"] == "0"
        subscription = {
            "classFilterMode": False, "topic": "T", "subString": "TagA", "tagsSet": ["TagA"], "codeSet": ["2598919"],
            "subVersion": 1_700_000_000_000_000_000, "expressionType": "TAG",
        }  # fmt: skip
        consumer = {
            "groupName": "CG", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription], "unitMode": False,
        }  # fmt: skip
        heartbeat = {"clientID": "192.0.2.9@7", "producerDataSet": [], "consumerDataSet": [consumer]}
        answer, _ = await raw.ask({"code": 34, "opaque": 2, "extFields": None, **GO}, json.dumps(heartbeat).encode())
        while answer["opaque"] != 2 or not answer["flag"] & 1:  # the notice to share the queues comes before
            answer, _ = await raw.hear()
        assert answer["code"] == 0
        answer, body = await raw.ask({"code": 11, "opaque": 3, "extFields": PULL, **GO})
        assert answer["code"] == 0 and answer["extFields"]["nextBeginOffset"] == "1"
        assert [message.body for message in scan(body)] == [b"hello"]

    on_connection(work, tmp_path)


@pytest.mark.parametrize(
    "envelope",
    [
        {"language": "ERLANG", "version": 0},
        {"language": "ZIG", "version": 63},
        {"language": 9, "version": 317},
        {"language": None, "version": 1, "remark": None, "serializeTypeCurrentRPC": None},
        {"version": 32767, "unknown": {"key": [1, 2]}, "serializeTypeCurrentRPC": "JSON"},
        {},
    ],
    ids=str,
)
def test_whatever_language_and_version(tmp_path: Path, envelope: dict[str, Any]) -> None:
    async def work(raw: Raw, c: Cluster) -> None:
        answer, _ = await raw.ask({"code": 10, "opaque": 7, "flag": 0, "extFields": SEND, **envelope}, b"x")
        assert (answer["code"], answer["opaque"]) == (0, 7), answer

    on_connection(work, tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        dict(reversed(SEND.items())),
        SEND | {"properties": None, "reconsumeTimes": None, "unitMode": None},
        SEND | {"unknown": "field", "ReqT": "0", "AccessKey": "x"},
        SEND | {"queueId": 1, "sysFlag": 0, "bornTimestamp": 1_700_000_000_000, "unitMode": False},
        SEND | {"properties": "no\x01end"},
        SEND | {"properties": ""},
    ],
    ids=range(6),
)
def test_fields_in_any_order_and_form(tmp_path: Path, fields: dict[str, Any]) -> None:
    async def work(raw: Raw, c: Cluster) -> None:
        answer, _ = await raw.ask({"code": 10, "opaque": 1, "extFields": fields, **GO}, b"x")
        assert (answer["code"], answer["extFields"]["queueId"]) == (0, "1"), answer

    on_connection(work, tmp_path)


def test_whitespace_and_escapes(tmp_path: Path) -> None:
    async def work(raw: Raw, c: Cluster) -> None:
        text = json.dumps({"code": 10, "opaque": -5, "extFields": SEND, "flag": 0}, indent=4)
        answer, _ = await raw.ask(text.replace('"T"', '"\\u0054"'), b"x")
        assert (answer["code"], answer["opaque"]) == (0, -5)

    on_connection(work, tmp_path)


def test_a_missing_field_is_named_and_the_connection_goes_on(tmp_path: Path) -> None:
    async def work(raw: Raw, c: Cluster) -> None:
        short = {key: value for key, value in SEND.items() if key != "bornTimestamp"}
        answer, _ = await raw.ask({"code": 10, "opaque": 1, "extFields": short, **GO}, b"x")
        assert answer["code"] == 1 and "bornTimestamp" in answer["remark"]
        answer, _ = await raw.ask({"code": 10, "opaque": 2, "extFields": SEND, **GO}, b"x")
        assert answer["code"] == 0

    on_connection(work, tmp_path)


def test_one_way_is_never_answered(tmp_path: Path) -> None:
    async def work(raw: Raw, c: Cluster) -> None:
        raw.say({**GO, "code": 10, "opaque": 1, "flag": 2, "extFields": SEND}, b"x")
        raw.say({**GO, "code": 10, "opaque": 2, "flag": 2, "extFields": {}}, b"x")
        raw.say({**GO, "code": 9999, "opaque": 3, "flag": 2})
        answer, _ = await raw.ask({"code": 9999, "opaque": 4, **GO})
        assert (answer["code"], answer["opaque"]) == (3, 4)

    on_connection(work, tmp_path)
