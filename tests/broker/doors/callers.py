"""Somebody who comes through a door of the broker. A new door is tested by a class here, and a line in ``DOORS``.

What the broker refuses is raised as ``Refused``, translated back from what the door says.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.refusals import RESPONSE_CODES
from gantrymq.message import flags, properties
from gantrymq.message.message import Message
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, Header
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.headers.tools import ExplainTransaction
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.signature import Account
from gantrymq.protocol.stored_message import scan
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import Link
from gantrymq.runtime.rng import SystemRng
from gantrymq.testing import LocalCluster
from gantrymq.testing.local.door import Half
from tests.support.brokers import pull_header, send_header

T = TypeVar("T")
HTTP_PORT: Final = 8080
SECONDS: Final = 10


@dataclass(frozen=True)
class Who:
    """Who comes: the name of a producer group, and a user where the broker has some."""

    group: str = "payments"
    user: str | None = None

    @property
    def secret(self) -> str:
        return f"{self.user}-secret"


class Caller(Protocol):
    """What somebody may ask through a door. A door that does not offer something has no such method here."""

    def send(self, topic: str, body: bytes) -> None: ...

    def half(self, topic: str, body: bytes) -> Half: ...

    def end(self, half: Half, state: LocalTransactionState) -> None: ...

    def read(self, topic: str) -> list[bytes]: ...

    def explain(self, transaction_id: str) -> list[dict[str, Any]]: ...


class ByValues:
    """Through the door for code in the same process."""

    name = "in process"

    def __init__(self, cluster: LocalCluster, who: Who) -> None:
        self._door = cluster.door(who.group, check=lambda view: LocalTransactionState.UNKNOWN, user=who.user)
        if who.user is not None or cluster.broker.guard is None:
            self._door.__enter__()

    def send(self, topic: str, body: bytes) -> None:
        self._door.send(Message(topic, body))

    def half(self, topic: str, body: bytes) -> Half:
        return self._door.send_half(Message(topic, body))

    def end(self, half: Half, state: LocalTransactionState) -> None:
        self._door.end(half, state)

    def read(self, topic: str) -> list[bytes]:
        return [view.body for view in self._door.read(topic)]


class ByFrames:
    """Through the remoting door."""

    name = "remoting"

    def __init__(self, cluster: LocalCluster, who: Who) -> None:
        self._cluster = cluster
        self._who = who
        account = None if who.user is None else Account(who.user, who.secret)
        network = cluster._network.of(None)
        self._client = RemotingClient(network, SystemClock(), SystemRng(), account=account)
        if account is not None or cluster.broker.guard is None:
            beat = {"clientID": f"c-{who.group}", "producerDataSet": [{"groupName": who.group}], "consumerDataSet": []}
            self._ask(Code.HEART_BEAT, None, json.dumps(beat).encode())

    def send(self, topic: str, body: bytes) -> None:
        self._ask(Code.SEND_MESSAGE_V2, send_header(topic, producer_group=self._who.group), body)

    def half(self, topic: str, body: bytes) -> Half:
        marks = {properties.TRANSACTION_PREPARED: "true", properties.PRODUCER_GROUP: self._who.group}
        header = send_header(
            topic, properties.encode(marks), producer_group=self._who.group, sys_flag=flags.PREPARED
        )  # fmt: skip
        answer = self._ask(Code.SEND_MESSAGE_V2, header, body).header(SendMessageAnswer)
        return Half(answer.transaction_id or "", answer.queue_offset, parse_offset_message_id(answer.msg_id)[1])

    def end(self, half: Half, state: LocalTransactionState) -> None:
        self._ask(Code.END_TRANSACTION, EndTransaction(
            producer_group=self._who.group, tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.log_offset, commit_or_rollback=int(state.resolution), msg_id=half.transaction_id,
            transaction_id=half.transaction_id,
        ))  # fmt: skip

    def read(self, topic: str) -> list[bytes]:
        found: list[bytes] = []
        config = self._cluster.broker.topics.get(topic)
        assert config is not None
        for queue in range(config.read_queue_nums):
            command = self._tell(Code.PULL_MESSAGE, pull_header(topic, queue, consumer_group=self._who.group))
            if command.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND):
                raise _refused(command)
            found += [record.body for record in scan(command.body)]
        return found

    def explain(self, transaction_id: str) -> list[dict[str, Any]]:
        answer = self._ask(Code.EXPLAIN_TRANSACTION, ExplainTransaction(transaction_id=transaction_id))
        explained: list[dict[str, Any]] = json.loads(answer.body)
        return explained

    def _ask(self, code: Code, header: Header | None, body: bytes = b"") -> Command:
        answer = self._tell(code, header, body)
        if answer.code != ResponseCode.SUCCESS:
            raise _refused(answer)
        return answer

    def _tell(self, code: Code, header: Header | None, body: bytes = b"") -> Command:
        address = self._cluster.broker.address
        return _on(self._cluster, self._client.call(address, code, header, body, timeout_ms=SECONDS * 1000))


class ByHttp:
    """Through the HTTP door."""

    name = "http"

    def __init__(self, cluster: LocalCluster, who: Who) -> None:
        self._cluster = cluster
        self._who = who

    def explain(self, transaction_id: str) -> list[dict[str, Any]]:
        status, body = _on(self._cluster, self._get(f"/transactions/{transaction_id}"))
        if status == 404:
            return []
        if status in (401, 403):
            raise Refused(Refusal.NOT_PERMITTED, body)
        assert status == 200, (status, body)
        explained: list[dict[str, Any]] = json.loads(body)
        return explained

    async def _get(self, path: str) -> tuple[int, str]:
        asked = _Answered()
        link = await self._cluster._network.of(None).connect("127.0.0.1", HTTP_PORT, asked, SECONDS)
        who = "" if self._who.user is None else f"{self._who.user}:{self._who.secret}"
        signed = f"Authorization: Basic {b64encode(who.encode()).decode()}\r\n" if who else ""
        link.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{signed}Connection: close\r\n\r\n".encode())
        async with asyncio.timeout(SECONDS):
            await asked.over.wait()
        head, _, body = asked.data.partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), body.decode()


class _Answered:
    """Keeps what comes until the connection ends."""

    def __init__(self) -> None:
        self.data = b""
        self.over = asyncio.Event()

    def connected(self, link: Link) -> None: ...

    def received(self, data: bytes) -> None:
        self.data += data

    def lost(self, reason: str) -> None:
        self.over.set()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


DOORS: Final = (ByValues, ByFrames, ByHttp)
_REFUSALS: Final = {code: refusal for refusal, code in RESPONSE_CODES.items()}


def _on(cluster: LocalCluster, work: Coroutine[Any, Any, T]) -> T:
    return cluster._calls.run(work)


def _refused(answer: Command) -> Refused:
    return Refused(_REFUSALS[ResponseCode(answer.code)], answer.remark or "")
