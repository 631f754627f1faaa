"""Recorded requests of Apache's clients are sent to our servers. The answers must be like those of Apache's brokers."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, decode_command
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.runtime.addresses import split_address
from tests.golden.recorded import Recorded, scenario
from tests.support.brokers import cluster
from tests.support.places import run

PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
HELD_SECONDS = 0.3
"""After this long without an answer, a pull counts as held. In the recording its messages came from another client."""

EXPLAINED = {
    (RequestCode.RECALL_MESSAGE, ResponseCode.SUCCESS, ResponseCode.ILLEGAL_OPERATION): "the recorded time is past",
    (RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.QUERY_NOT_FOUND, ResponseCode.SUCCESS): "an empty queue: 4.x's 0",
}
"""(request, recorded answer, our answer): why they may differ."""


class Connection:
    """One recorded connection, played again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.answers: dict[int, Command] = {}
        self._news = asyncio.Event()
        self._task = asyncio.ensure_future(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        splitter = FrameSplitter()
        while data := await reader.read(1 << 16):
            for frame in splitter.feed(data):
                command = decode_command(*frame)
                if command.is_response:
                    self.answers[command.opaque] = command
                    self._news.set()

    async def answer(self, opaque: int, seconds: float) -> Command | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while opaque not in self.answers:
                    self._news.clear()
                    await self._news.wait()
        return self.answers.get(opaque)

    async def close(self) -> None:
        self.writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def recorded_kind(recorded: Recorded) -> tuple[int, set[str] | None]:
    fields = recorded.header.get("extFields")
    return recorded.code, None if fields is None else set(fields)


def difference(request: Recorded, recorded: Recorded, answer: Command | None, *, exact: bool) -> str | None:
    code, fields = recorded_kind(recorded)
    if answer is None:
        return None if request.code in PULLS else "no answer"
    if answer.code != code:
        return _unless_explained(request, code, answer)
    if code != ResponseCode.SUCCESS:
        return None
    ours = set(answer.ext_fields())
    if (exact and (fields or set()) != ours) or not (fields or set()) <= ours:
        return f"fields {sorted(fields or ())}, ours {sorted(ours)}"
    return None


def _unless_explained(request: Recorded, code: int, answer: Command) -> str | None:
    if (request.code, code, answer.code) in EXPLAINED:
        return None
    return f"answered {code}, ours {answer.code}: {answer.remark}"


async def play(name: str, root: Path) -> tuple[int, Counter[Any]]:
    frames = scenario(name)
    recorded = {(frame.conn, frame.opaque): frame for frame in frames if frame.is_response}
    differences: Counter[Any] = Counter()
    compared = 0
    connections: dict[int, Connection] = {}
    async with cluster(root, with_name_server=True, recall_message_enable=True) as c:
        assert c.name_server is not None
        ports = {"broker": split_address(c.broker.address)[1], "nameserver": split_address(c.name_server.address)[1]}
        for request in frames:
            if request.sender != "client" or request.is_response:
                continue
            if request.conn not in connections:
                port = ports[request.receiver]
                connections[request.conn] = Connection(*await asyncio.open_connection("127.0.0.1", port))
            connection = connections[request.conn]
            connection.writer.write(request.bytes)
            expected = recorded.get((request.conn, request.opaque))
            if request.kind == "oneway" or expected is None:
                continue
            answer = await connection.answer(request.opaque, HELD_SECONDS if request.code in PULLS else 10)
            compared += 1
            found = difference(request, expected, answer, exact=name.startswith("v5"))
            if found is not None:
                differences[request.code, found] += 1
        for connection in connections.values():
            await connection.close()
    return compared, differences


@pytest.mark.parametrize(
    "name",
    [
        f"{version}-{played}"
        for version in ("v4", "v5")
        for played in ("producer-plain", "push-broadcast", "lite-pull", "binary-client")
    ],
)
def test_official_clients_get_the_answers_they_know(tmp_path: Path, name: str) -> None:
    compared, differences = run(play(name, tmp_path))
    assert compared > 10
    assert not differences
