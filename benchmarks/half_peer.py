"""A minimal producer: sends half messages, ends them and answers checks, with many requests in flight."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
from collections import deque
from types import TracebackType
from typing import Self

from gantrymq.message import properties
from gantrymq.message.system_topics import AUTO_CREATE
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.headers.transaction import EndTransaction

GROUP = "PG_open"
TOPIC = "OpenTransactions"
IN_FLIGHT = 256
HEARTBEAT_S = 30.0
"""The interval of heartbeats. A broker considers a producer dead after two minutes of silence."""
_QUEUE_OFFSET = re.compile(rb'"queueOffset":"(\d+)"')
_MSG_ID = re.compile(rb'"msgId":"([0-9A-F]{32})"')
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_CHECK = re.compile(rb'"tranStateTableOffset":"(\d+)","commitLogOffset":"(\d+)","msgId":"(\w+)"')
_UNKNOWN = (
    b'{"code":37,"extFields":{"producerGroup":"%b","tranStateTableOffset":"%%b","commitLogOffset":"%%b",'
    b'"commitOrRollback":"0","fromTransactionCheck":"true","msgId":"%%b"},"flag":2,"language":"PYTHON",'
    b'"opaque":0,"serializeTypeCurrentRPC":"JSON","version":513}' % GROUP.encode()
)

Place = tuple[int, int, str]
"""(half queue offset, log offset, UNIQ_KEY) of a half message."""


class HalfPeer(asyncio.Protocol):
    """One connection of one producer of ``GROUP``."""

    def __init__(self, address: str, body_bytes: int) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._body = bytes(body_bytes)
        self._prefix = os.urandom(8).hex().upper()
        self._splitter = FrameSplitter()
        self._opaque = 0
        self._begun: dict[int, tuple[float, str]] = {}
        """Requests in flight: (time of sending, key) by opaque."""
        self._answers: deque[tuple[int, str, bytes, bytes]] = deque()
        self._woken = asyncio.Event()
        self._asked: set[bytes] = set()
        self.slowest_s = 0.0
        """The longest time that an answer took."""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: self, self._host, int(self._port))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.close()

    # ---- what is done with it

    async def send_halves(self, number: int, keep: int) -> list[Place]:
        """Send ``number`` half messages. Returns the places of about ``keep`` of them, spread evenly."""
        every = max(number // keep, 1)
        places: list[Place] = []
        sent = answered = 0
        while answered < number:
            while sent < number and len(self._begun) < IN_FLIGHT:
                self._send_half(f"{self._prefix}{sent:016X}")
                sent += 1
            for _, key, header, _ in await self._some_answers():
                if answered % every == 0:
                    places.append(_place(header, key))
                answered += 1
        return places

    async def transactions(self, number: int, width: int = 64) -> None:
        """Send half messages, and commit each as soon as its answer arrives."""
        started = ended = 0
        while ended < number:
            while started < number and len(self._begun) < width:
                self._send_half(f"{self._prefix}T{time.monotonic_ns():015X}")
                started += 1
            for _, key, header, _ in await self._some_answers():
                if b'"queueOffset"' in header:
                    self._commit(_place(header, key))
                else:
                    ended += 1

    async def commit(self, places: list[Place], width: int = 64) -> None:
        waiting = deque(places)
        while waiting or self._begun:
            while waiting and len(self._begun) < width:
                self._commit(waiting.popleft())
            await self._some_answers()

    async def heartbeat(self) -> None:
        """Register as a live producer of the group. The broker may send checks at once."""
        body = {"clientID": f"bench@{self._prefix}", "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        self._request("", encode_request(RequestCode.HEART_BEAT, self._next(), None, json.dumps(body).encode()))
        await self._some_answers()

    async def asked_about(self, number: int) -> None:
        """Answer checks with UNKNOWN, until ``number`` different half messages were checked."""
        beaten = time.monotonic()
        while len(self._asked) < number:
            if time.monotonic() - beaten > HEARTBEAT_S:
                beaten = time.monotonic()
                await self.heartbeat()
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), HEARTBEAT_S)

    async def log_end(self) -> int:
        """Ask the broker for the log offset after the last record."""
        self._request("", encode_request(RequestCode.GET_BROKER_RUNTIME_INFO, self._next()))
        ((_, _, _, body),) = await self._some_answers()
        return int(json.loads(body)["table"]["commitLogMaxOffset"])

    # ---- bytes

    def _next(self) -> int:
        self._opaque += 1
        return self._opaque

    def _request(self, key: str, frame: bytes) -> None:
        self._begun[self._opaque] = (time.perf_counter(), key)
        self._transport.write(frame)

    def _send_half(self, key: str) -> None:
        text = properties.encode({"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key, "WAIT": "true", "TAGS": "paid"})
        header = SendMessage(
            producer_group=GROUP, topic=TOPIC, default_topic=AUTO_CREATE, default_topic_queue_nums=4, queue_id=0,
            sys_flag=4, born_timestamp=time.time_ns() // 1_000_000, flag=0, properties=text,
        )  # fmt: skip
        self._request(key, encode_request(RequestCode.SEND_MESSAGE_V2, self._next(), header, self._body))

    def _commit(self, place: Place) -> None:
        header = EndTransaction(
            producer_group=GROUP, tran_state_table_offset=place[0], commit_log_offset=place[1],
            commit_or_rollback=Resolution.COMMIT, msg_id=place[2],
        )  # fmt: skip
        self._request(place[2], encode_request(RequestCode.END_TRANSACTION, self._next(), header))

    async def _some_answers(self) -> list[tuple[int, str, bytes, bytes]]:
        """(opaque, key, header, body) of the next answers, at least one. Raises SystemExit for a refusal."""
        while not self._answers:
            self._woken.clear()
            await self._woken.wait()
        found = list(self._answers)
        self._answers.clear()
        for _, _, header, _ in found:
            if b'"code":0' not in header:
                raise SystemExit(f"the broker refused a request: {header.decode()}")
        return found

    def data_received(self, data: bytes) -> None:
        unknown: list[bytes] = []
        now = time.perf_counter()
        for _, header, body in self._splitter.feed(data):
            check = _CHECK.search(header)
            if check is not None:
                queue_offset, log_offset, key = check.groups()
                self._asked.add(queue_offset)
                answer = _UNKNOWN % (queue_offset, log_offset, key)
                unknown.append(
                    (len(answer) + 4).to_bytes(4, "big") + len(answer).to_bytes(4, "big") + answer
                )  # fmt: skip
                continue
            opaque = _OPAQUE.search(header)
            if opaque is not None and (begun := self._begun.pop(int(opaque[1]), None)) is not None:
                self.slowest_s = max(self.slowest_s, now - begun[0])
                self._answers.append((int(opaque[1]), begun[1], header, body))
        if unknown:
            self._transport.write(b"".join(unknown))
        self._woken.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self._woken.set()


def _place(header: bytes, key: str) -> Place:
    queue_offset, message_id = _QUEUE_OFFSET.search(header), _MSG_ID.search(header)
    if queue_offset is None or message_id is None:
        raise SystemExit(f"not the answer to a half message: {header.decode()}")
    return int(queue_offset[1]), int(message_id[1][16:], 16), key
