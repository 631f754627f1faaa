"""Requests of tools that only a consumer can answer. The broker forwards them.

Source: AdminBrokerProcessor.callConsumer, Broker2Client.getConsumeStatus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from gantrymq.broker.client import Client
from gantrymq.broker.message_rights import MessageRights
from gantrymq.broker.pushes import AnswerDone, ConsumerAnswer, DirectConsumption, RunningInfoQuestion
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups, Member
from gantrymq.message import system_topics
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.message_ids import parse_offset_message_id

CONSUMER_SECONDS: Final = 10.0
"""How long a member may take to answer."""
POSITIONS_SECONDS: Final = 5.0
"""How long the members of a group may take to say where they are."""

Done = Callable[[ConsumerAnswer | Refused], None]
"""Called once: with what the member answered, or CONSUMER_SILENT."""
PositionsOfAll = Mapping[str, Mapping[MessageQueue, int]]
"""Client id to offset by queue."""


class Log(Protocol):
    """Where messages lie."""

    def read(self, log_offset: int) -> StoredMessage | None: ...


@dataclass(frozen=True, slots=True)
class ConsumeNow:
    """The message that is to be consumed directly, and the member that shall consume it."""

    group: str
    client_id: str | None
    """None or empty: any member."""
    message_id: str | None
    """Offset message id; None or empty: the member gets no message with the question."""
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None


class ConsumerQuestions:
    """Finds the member that a question is for and asks it."""

    def __init__(self, broker_name: str, consumers: ConsumerGroups, store: Log, rights: MessageRights | None) -> None:
        """``rights``: None: the broker has no users."""
        self._broker_name = broker_name
        self._consumers = consumers
        self._store = store
        self._rights = rights

    def running_info(self, group: str, client_id: str, with_stacks: bool | None, done: Done) -> None:
        """What a member does just now."""
        member = self._member(group, client_id)
        question = RunningInfoQuestion(group, client_id, with_stacks)
        member.connection.running_info(question, CONSUMER_SECONDS, _answered(member, done))

    def consume_directly(self, client: Client, wanted: ConsumeNow, done: Done) -> None:
        """Give one message to a member at once, whatever its group has consumed. Both ``client``, who asks for it, and
        the member must be allowed to read it.
        """
        member = self._member(wanted.group, wanted.client_id)
        message = self._message(wanted.message_id) if wanted.message_id else None
        if message is not None and self._rights is not None:
            for reader in (client, member.connection):
                missing = self._rights.missing(reader, message, wanted.group)
                if missing is not None:
                    raise Refused(Refusal.NOT_PERMITTED, missing)
        question = DirectConsumption(
            wanted.group,
            wanted.client_id,
            wanted.message_id,
            message,
            self._broker_name,
            wanted.topic,
            wanted.topic_sys_flag,
            wanted.group_sys_flag,
        )
        member.connection.consume_directly(question, CONSUMER_SECONDS, _answered(member, done))

    def _message(self, message_id: str) -> StoredMessage:
        offset = parse_offset_message_id(message_id)[1]
        message = self._store.read(offset)
        # A consumer must not get to see, by whatever way, what nobody has committed (X5).
        if message is None or message.topic in system_topics.TRANSACTION_TOPICS:
            raise Refused(Refusal.FAILED, f"there is no message at {offset} that consumers may receive")
        return message

    def _member(self, group_name: str, client_id: str | None) -> Member:
        group = self._consumers.get(group_name)
        for member in group.members.values() if group is not None else ():
            if not client_id or member.client_id == client_id:
                return member
        raise Refused(Refusal.FAILED, f"The Consumer <{group_name}> <{client_id}> not online")

    def positions(
        self, group_name: str, topic: str, client_id: str | None, done: Callable[[PositionsOfAll], None]
    ) -> None:
        """The positions that the members of a group report. ``client_id``: only this member. Members that do not answer
        in time, or not with positions, are left out.
        """
        group = self._consumers.get(group_name)
        if group is None:
            raise Refused(Refusal.CONSUMER_OFFLINE, f"No Any Consumer online in the consumer group: [{group_name}]")
        asked = [member for member in group.members.values() if not client_id or member.client_id == client_id]
        _Collected(asked, done).ask(group_name, topic)


class _Collected:
    """The positions of several members; what has come when the last one has answered, or failed, is the result."""

    def __init__(self, members: Sequence[Member], done: Callable[[PositionsOfAll], None]) -> None:
        self._members = members
        self._done = done
        self._left = len(members)
        self._found: dict[str, Mapping[MessageQueue, int]] = {}

    def ask(self, group: str, topic: str) -> None:
        if not self._members:
            self._done(self._found)
        for member in self._members:
            member.connection.positions(group, topic, POSITIONS_SECONDS, partial(self._answered, member))

    def _answered(self, member: Member, offsets: Mapping[MessageQueue, int] | None) -> None:
        if offsets is not None:
            self._found[member.client_id] = offsets
        self._left -= 1
        if not self._left:
            self._done(self._found)


def _answered(member: Member, done: Done) -> AnswerDone:
    def answered(answer: ConsumerAnswer | None) -> None:
        if answer is not None:
            done(answer)
            return
        why = f"consumer <{member.client_id}> did not answer within {CONSUMER_SECONDS:g} s, or is gone"
        done(Refused(Refusal.CONSUMER_SILENT, why))

    return answered
