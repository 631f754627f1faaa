"""Messages that a broker sends to its clients by itself, or for somebody else: values without a protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gantrymq.broker.submission import Submission
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import MessageQueue


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The members of a group shall continue at other offsets of a topic, and commit these themselves."""

    group: str
    topic: str
    timestamp_ms: int
    """The time that the operator asked for, ms since 1970; -1: the end of every queue."""
    force: bool
    """False: only backwards."""
    offsets: Mapping[MessageQueue, int]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request (request-reply), for the producer that asked."""

    message: Submission
    """As the replier sent it, but for its properties."""
    properties: str
    """The properties' text that the requester gets."""
    body: bytes
    born_address: str
    """``ip:port`` of the replier."""
    store_address: str
    """``ip:port`` of this broker."""
    store_timestamp: int
    """ms since 1970"""


@dataclass(frozen=True, slots=True)
class RunningInfoQuestion:
    """A tool wants to know what a member of a consumer group does just now."""

    group: str
    client_id: str
    with_stacks: bool | None
    """Whether the stacks of the member's threads belong to the answer; None: the tool did not say."""


@dataclass(frozen=True, slots=True)
class DirectConsumption:
    """A tool wants a member of a consumer group to consume one message now, whatever the group has consumed."""

    group: str
    client_id: str | None
    """None: any member."""
    message_id: str | None
    """Offset message id."""
    message: StoredMessage | None
    """None when the tool named no message."""
    broker_name: str
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None


@dataclass(frozen=True, slots=True)
class ConsumerAnswer:
    """What a consumer answers to the question of a tool. The broker hands it on and reads nothing of it."""

    code: int
    """0: answered; any other number is RocketMQ's for the reason why not."""
    body: bytes
    """JSON under RocketMQ's names: ConsumerRunningInfo or ConsumeMessageDirectlyResult."""
    remark: str | None = None
    fields: Mapping[str, str] | None = None
    """Whatever else the consumer says."""


AnswerDone = Callable[[ConsumerAnswer | None], None]
"""Called once: with the answer, or with None when the client disconnected, does not read, or is too slow."""

PositionsDone = Callable[[Mapping[MessageQueue, int] | None], None]
"""Called once: with offset by queue, or with None when no usable answer came in time."""

ReplyDone = Callable[[str | None], None]
"""Called once: with None when the requester accepted the reply, otherwise with the reason why it did not."""
