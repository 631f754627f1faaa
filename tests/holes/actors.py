"""Producers that send frames of their own, because a client library would prevent the misuse that the tests need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gantrymq.client.connection.endpoint import Outside
from gantrymq.message import flags, properties
from gantrymq.message.heartbeat import ProducerData
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import AUTO_CREATE
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer
from gantrymq.protocol.headers.transaction import CheckTransactionState, EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import decode_record
from gantrymq.remoting.channel import ClientChannel
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.tasks import TaskGroupOwner

TIMEOUT_MS: Final = 60_000
"""How long an answer may take. It is long, because a machine that runs JVMs is slow."""
BODY: Final = b"paid"


class Refused(Exception):
    """A broker refused a half message."""

    def __init__(self, answer: Command) -> None:
        super().__init__(f"{answer.code}: {answer.remark}")
        self.code = answer.code


@dataclass(frozen=True, slots=True)
class Half:
    """A half message as its sender knows it."""

    key: str
    topic: str
    place: tuple[int, int]
    """(queue offset, log offset) as answered."""
    sent_at: float
    """Monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check-back as it arrived."""

    key: str
    place: tuple[int, int]
    message: StoredMessage
    header: CheckTransactionState
    at: float
    """Monotonic seconds."""


class Producer:
    """One connection, which is a member of one producer group. ``answer`` returns the answer to a check; None: none."""

    def __init__(self, outside: Outside, address: Callable[[], str], group: str, new_key: Callable[[], str]) -> None:
        self.group: Final = group
        self.checks: list[Check] = []
        self.answer: Callable[[Check], Resolution | None] = lambda check: None
        self._outside = outside
        self._address = address
        self._new_key = new_key
        self._client = RemotingClient(outside.network, outside.clock, outside.rng, requests=self._asked)
        self._answering = TaskGroupOwner("answers to checks")

    async def ask(self, code: RequestCode, header: object = None, body: bytes = b"") -> Command:
        return await self._client.call(self._address(), code, header, body, timeout_ms=TIMEOUT_MS)  # type: ignore[arg-type]

    async def join(self) -> None:
        """Send a heartbeat, to become a member of the group."""
        beat = HeartbeatData(
            client_id=f"{self.group}@{self._new_key()}", producer_data_set=[ProducerData(group_name=self.group)]
        )
        answer = await self.ask(RequestCode.HEART_BEAT, None, beat.encode())
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def half(
        self, topic: str, body: bytes = BODY, *, key: str | None = None, born_ms: int | None = None, flag: int = 0,
        reconsume_times: int = 0, queue_id: int = 0, **more: str,
    ) -> Half:  # fmt: skip
        """Send a half message; ``more``: properties. Raises Refused."""
        key = key or self._new_key()
        text = properties.encode({"TRAN_MSG": "true", "PGROUP": self.group, "UNIQ_KEY": key, "WAIT": "true"} | more)
        header = SendMessage(
            producer_group=self.group, topic=topic, default_topic=AUTO_CREATE, default_topic_queue_nums=1,
            queue_id=queue_id, sys_flag=flags.PREPARED,
            born_timestamp=self._outside.clock.wall_ms() if born_ms is None else born_ms, flag=flag,
            properties=text, reconsume_times=reconsume_times, unit_mode=False, batch=False,
        )  # fmt: skip
        answer = await self.ask(RequestCode.SEND_MESSAGE_V2, header, body)
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer)
        stored = answer.header(SendMessageAnswer)
        log_offset = parse_offset_message_id(stored.msg_id)[1]
        return Half(key, topic, (stored.queue_offset, log_offset), self._outside.clock.monotonic())

    async def halves(self, topic: str, count: int, **more: str) -> list[Half]:
        """Send ``count`` half messages, one after the other."""
        return [await self.half(topic, **more) for _ in range(count)]

    async def end(self, what: Half | Check, resolution: Resolution, *, place: tuple[int, int] | None = None) -> Command:
        """Send END_TRANSACTION two-way, for a half message or as the answer to a check. Returns the broker's answer."""
        queue_offset, log_offset = place or what.place
        header = EndTransaction(
            producer_group=self.group, tran_state_table_offset=queue_offset, commit_log_offset=log_offset,
            commit_or_rollback=int(resolution), from_transaction_check=isinstance(what, Check), msg_id=what.key,
            transaction_id=what.key,
        )  # fmt: skip
        return await self.ask(RequestCode.END_TRANSACTION, header)

    async def commit(self, what: Half | Check) -> Command:
        return await self.end(what, Resolution.COMMIT)

    async def roll_back(self, what: Half | Check) -> Command:
        return await self.end(what, Resolution.ROLLBACK)

    def checks_of(self, half: Half) -> list[Check]:
        """The checks that came for a half message or for any copy of it."""
        return [check for check in self.checks if check.key == half.key]

    async def leave(self) -> None:
        """Close the connection, as the death of the process does."""
        await self._answering.stop()
        await self._client.close()

    def _asked(self, _channel: ClientChannel, command: Command) -> None:
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        header = command.header(CheckTransactionState)
        message = decode_record(command.body)
        key = properties.find(message.properties_text, properties.UNIQ_KEY) or ""
        place = (header.tran_state_table_offset, header.commit_log_offset)
        check = Check(key, place, message, header, self._outside.clock.monotonic())
        self.checks.append(check)
        resolution = self.answer(check)
        if resolution is not None:
            self._answering.start(check.key, self._reply(check, resolution))

    async def _reply(self, check: Check, resolution: Resolution) -> None:
        # Apache's brokers may not answer a rollback or an UNKNOWN, so this does not wait for the answer.
        if resolution is Resolution.UNKNOWN:
            queue_offset, log_offset = check.place
            header = EndTransaction(
                producer_group=self.group, tran_state_table_offset=queue_offset, commit_log_offset=log_offset,
                commit_or_rollback=0, from_transaction_check=True, msg_id=check.key, transaction_id=check.key,
            )  # fmt: skip
            await self._client.call_oneway(self._address(), RequestCode.END_TRANSACTION, header)
        else:
            await self.end(check, resolution)


def always(resolution: Resolution) -> Callable[[Check], Resolution | None]:
    """An ``answer`` that is the same for every check."""
    return lambda _check: resolution
