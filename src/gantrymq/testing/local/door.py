"""A client that speaks to a broker in the same process by values, without frames.

It calls the same operations as the remoting door. So a half message that came through one of them can be checked and
ended through the other.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self

from gantrymq.access.guard import Denied
from gantrymq.access.operations import CONSUME, END, SEND, Operation, Role
from gantrymq.access.values import User
from gantrymq.broker.client import Check
from gantrymq.broker.delivery.pull_values import InlineSubscription, PullRequest, PullResult
from gantrymq.broker.door import Served
from gantrymq.broker.operations.end_by_id import TransactionIds
from gantrymq.broker.operations.operations import Operations
from gantrymq.broker.pushes import (
    AnswerDone,
    DirectConsumption,
    OffsetReset,
    PositionsDone,
    Reply,
    ReplyDone,
    RunningInfoQuestion,
)
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.submission import Stored, Submission
from gantrymq.broker.transactions.end import EndRequest
from gantrymq.errors import Closed
from gantrymq.message import flags, properties
from gantrymq.message.heartbeat import Heartbeat, ProducerData
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.stored_message import decode_record, scan, to_view
from gantrymq.runtime.addresses import host_of
from gantrymq.testing.local.calls import Calls
from gantrymq.testing.local.servers import Servers

log = logging.getLogger("gantrymq.testing")

ADDRESS: Final = "127.0.0.1:1"
READ_AT_ONCE: Final = 1024
_numbers = itertools.count(1)

Checker = Callable[[MessageView], LocalTransactionState]
"""Says what became of a local transaction. It runs on the loop of the cluster: it must be short and call nothing of the
cluster."""


@dataclass(frozen=True, slots=True)
class Half:
    """A half message, as its sender names it when it ends it."""

    transaction_id: str
    queue_offset: int
    log_offset: int


class _Member:
    """What the broker knows of who came through the door; see ``broker.client.Connection``."""

    protocol: Final = "in process"

    def __init__(self, asked: Callable[[Check], None], user: Callable[[], User | None]) -> None:
        self.id = -next(_numbers)  # those of the remoting door are positive
        self.address = ADDRESS
        self.host = pack_host(ADDRESS)
        self.alive = True
        self.writable = True
        self._asked = asked
        self._user = user

    @property
    def user(self) -> User | None:
        return self._user()

    def ask(self, check: Check) -> None:
        asyncio.get_running_loop().call_soon(self._asked, check)

    # It consumes nothing as a member of a group, and asks for no reply.

    def members_changed(self, group: str) -> None: ...

    def reset_offsets(self, reset: OffsetReset) -> None: ...

    def running_info(self, question: RunningInfoQuestion, seconds: float, done: AnswerDone) -> None:
        done(None)

    def consume_directly(self, question: DirectConsumption, seconds: float, done: AnswerDone) -> None:
        done(None)

    def positions(self, group: str, topic: str, seconds: float, done: PositionsDone) -> None:
        done(None)

    def hand_reply(self, reply: Reply, seconds: float, done: ReplyDone) -> None:
        done("nobody here has asked")


class LocalDoor:
    """One producer that speaks to the broker by values; made by ``LocalCluster.door``. Use it in a ``with`` block.

    What the broker refuses is raised as ``Refused``, with the reason as an enum and a sentence.
    """

    def __init__(self, calls: Calls, servers: Servers, group: str, check: Checker | None, user: str | None) -> None:
        self._calls = calls
        self._servers = servers
        self._group = group
        self._checker = check
        self._user = user
        self._member = _Member(self._asked, self._known)
        self.checks = 0
        """How often the broker has asked."""

    def __enter__(self) -> Self:
        if self._checker is not None:
            self._calls.run(self._join())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._calls.open:
            self._calls.run(self._leave())

    def send(self, message: Message) -> Stored:
        """Store a message; where it is."""
        return self._calls.run(self._send(message, {}, 0))

    def send_half(self, message: Message) -> Half:
        """Store a half message of the door's group."""
        marks = {properties.TRANSACTION_PREPARED: "true", properties.PRODUCER_GROUP: self._group}
        stored = self._calls.run(self._send(message, marks, flags.PREPARED))
        return Half(stored.unique_key, stored.queue_offset, stored.log_offset)

    def end(self, half: Half, state: LocalTransactionState) -> None:
        """Commit a half message or roll it back; UNKNOWN leaves it open."""
        self._calls.run(self._end(half, state))

    def end_by_id(self, message_id: str, transaction_id: str | None, state: LocalTransactionState) -> None:
        """The same, for a half message that is named by ids: its UNIQ_KEY or offset message id, and its UNIQ_KEY."""
        self._calls.run(self._end_by_id(TransactionIds(message_id, transaction_id, self._group), state))

    def read(self, topic: str) -> list[MessageView]:
        """Pull all messages of a topic, queue by queue, as a consumer of the door's group."""
        return self._calls.run(self._read(topic))

    # On the cluster's loop.

    @property
    def _served(self) -> Served:
        served = self._servers.served
        if served is None:
            raise Closed("the broker of the local cluster does not run; it could not be started again")
        return served

    @property
    def _operations(self) -> Operations:
        return self._served.operations

    def _known(self) -> User | None:
        served = self._servers.served
        users = None if served is None else served.operations.users
        return None if users is None else users.guard.directory.user(self._user or "")

    async def _join(self) -> None:
        joined = asyncio.get_running_loop().create_future()
        data = Heartbeat(
            client_id=f"local-door@{-self._member.id}", producer_data_set=[ProducerData(group_name=self._group)]
        )
        self._operations.members.heartbeat(
            self._member, data, "PYTHON", 0, lambda: None if joined.done() else joined.set_result(None)
        )
        await joined

    async def _leave(self) -> None:
        self._member.alive = False
        served = self._servers.served
        if served is not None:
            served.departures.client_gone(self._member)

    def _demand(self, operation: Operation, topic: str, *groups: str) -> None:
        """What the guard does for requests; nothing signs here, since it is the broker's own process."""
        if operation.writes:
            self._served.gate.check()
        users = self._operations.users
        if users is None:
            return
        guard = users.guard
        user = guard.directory.user(self._user or "")
        if user is None or not user.enabled:
            raise Refused(Refusal.NOT_PERMITTED, "this broker has users: name one that is enabled, door(..., user=...)")
        try:
            guard.demand_operation(user, operation, {Role.TOPIC: (topic,), Role.GROUP: groups}, host_of(ADDRESS))
        except Denied as denied:
            raise Refused(Refusal.NOT_PERMITTED, str(denied)) from None

    async def _send(self, message: Message, marks: dict[str, str], sys_flag: int) -> Stored:
        self._demand(SEND, message.topic)
        text = properties.encode({**message.properties, **marks})
        submission = Submission(
            producer_group=self._group, topic=message.topic, properties=text, born_timestamp=self._servers.wall_ms(),
            sys_flag=sys_flag, flag=message.flag,
        )  # fmt: skip
        answer: asyncio.Future[Stored | Refused] = asyncio.get_running_loop().create_future()
        self._operations.sending.one.send(self._member, submission, message.body, answer.set_result)
        stored = await answer
        if isinstance(stored, Refused):
            raise stored
        return stored

    async def _end(self, half: Half, state: LocalTransactionState) -> None:
        open_half = self._operations.transactions.table.at(half.queue_offset, half.log_offset)
        if open_half is not None:
            self._demand(END, open_half.real_topic)
        request = EndRequest(
            self._group, half.queue_offset, half.log_offset, half.transaction_id, half.transaction_id, state.resolution
        )
        await _ended(partial(self._operations.transactions.ends.end, self._member, request))

    async def _end_by_id(self, ids: TransactionIds, state: LocalTransactionState) -> None:
        ends = self._operations.ends_by_id
        self._demand(END, ends.find(ids).topic)
        await _ended(partial(ends.end, self._member, ids, state.resolution))

    def _asked(self, check: Check) -> None:
        self.checks += 1
        try:
            view = to_view(decode_record(check.message), check.broker_name)
            state = LocalTransactionState.UNKNOWN if self._checker is None else self._checker(view)
            request = EndRequest(
                check.group, check.queue_offset, check.log_offset, check.unique_key, check.unique_key,
                state.resolution, answers_check=True,
            )  # fmt: skip
            self._operations.transactions.ends.end(self._member, request, None)
        except Exception:
            log.exception("the check of transaction %s failed; the broker asks again", check.unique_key)

    async def _read(self, topic: str) -> list[MessageView]:
        self._demand(CONSUME, topic, self._group)
        found: list[MessageView] = []
        for queue_id in range(self._queues(topic)):
            offset = 0
            while (got := self._pull(topic, queue_id, offset)).records:
                found += [to_view(record, self._servers.broker_name) for record in scan(got.records)]
                offset = got.next_offset
        return sorted(found, key=lambda view: view.log_offset)

    def _queues(self, topic: str) -> int:
        try:
            return self._operations.administration.topics.get(topic).read_queue_nums
        except Refused as refused:
            if refused.reason is not Refusal.TOPIC_UNKNOWN:
                raise
            return 0

    def _pull(self, topic: str, queue_id: int, offset: int) -> PullResult:
        everything = InlineSubscription("*", "TAG")
        request = PullRequest(self._group, topic, queue_id, offset, READ_AT_ONCE, 0, subscription=everything)
        got = self._operations.consuming.pulls.pull(self._member, request, lambda result: None)
        assert got is not None, "a pull that may not be held is answered at once"
        return got


async def _ended(end: Callable[[Callable[[Refused | None], None]], None]) -> None:
    """Wait for an end. Raises Refused."""
    ended: asyncio.Future[Refused | None] = asyncio.get_running_loop().create_future()
    end(ended.set_result)
    refused = await ended
    if refused is not None:
        raise refused
