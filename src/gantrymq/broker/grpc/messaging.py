"""What the gRPC door asks of the messages behind it: the broker in whose process it is (``broker.grpc.local``), or a
cluster that a proxy stands before (``gantrymq.proxy``). Source: MessagingProcessor.

The door keeps nothing that only it knows, so two doors before the same messages serve the same clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gantrymq.broker.client import Client
from gantrymq.broker.grpc.clients import GrpcClient
from gantrymq.broker.operations.end_by_id import TransactionIds
from gantrymq.broker.pop.holds import NOBODY, Hold
from gantrymq.broker.pop.lite.starts import LiteStart
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.broker.pop.values import AckDone, PopDelivery, PopRequest, RenewDone, Renewed
from gantrymq.broker.stored import Stored
from gantrymq.broker.submission import Submission
from gantrymq.message.heartbeat import Heartbeat
from gantrymq.message.message import StoredMessage
from gantrymq.message.receipt_handle import ReceiptHandle
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.bodies.lite import LiteAction
from gantrymq.protocol.files.topics import TopicConfig


class BrokerTopic(NamedTuple):
    """A topic on one broker. A tuple, as ``Sent`` is, because one is made for each message."""

    broker_name: str
    settings: TopicConfig
    permission: int
    """What the topic and the broker permit together."""


@dataclass(frozen=True, slots=True)
class GroupRules:
    """How a consumer group gets its messages."""

    in_order: bool
    attempts: int
    """Deliveries of a message; behind the last one it is a dead letter."""
    lite_quota: int = 0
    """Lite topics that one client may read."""


class Sent(NamedTuple):
    """A message that is stored."""

    stored: Stored
    transaction_id: str
    """By which its sender ends the transaction; empty unless it is a half message."""


@dataclass(frozen=True, slots=True)
class Popped:
    """One message that a pop took, and how it is named until it is acknowledged."""

    message: StoredMessage
    delivery: PopDelivery
    handle: ReceiptHandle
    earlier: int = 0
    """Orderly: deliveries before this one."""


@dataclass(frozen=True, slots=True)
class LiteChange:
    """What a reader says about the lite topics of a topic."""

    action: LiteAction
    topic: str
    lite_topics: tuple[str, ...] = ()
    start: LiteStart | None = None
    """Where its group begins in those that are new to it."""


class Deliveries(Protocol):
    """Ends and prolongs deliveries; see ``broker.pop.acks``."""

    def ack(self, delivery: PopDelivery, done: AckDone) -> bool:
        """The message was consumed. True when that is done; False: ``done`` is called when it is, or has failed."""

    def change_invisible_time(
        self, delivery: PopDelivery, invisible_ms: int, *, suspend: bool, done: RenewDone, hold: Hold = NOBODY
    ) -> Renewed | None:
        """Let the message be invisible for ``invisible_ms`` from now. None: ``done`` gets the outcome."""

    def may_go_on(self, delivery: PopDelivery) -> bool:
        """Whether a delivery may go on although the time of its receipt handle is over: a door has prolonged it, and
        its client has the first handle."""


class Messaging(Protocol):
    """Every call raises Refused, or Rejected with a code of the protocol."""

    @property
    def body_max(self) -> int:
        """Bytes of a body."""

    @property
    def checks_types(self) -> bool:
        """Whether a topic takes only messages of its type."""

    @property
    def deliveries(self) -> Deliveries:
        """Messages that consumers have in hand."""

    async def topic(self, name: str) -> Sequence[BrokerTopic]:
        """A topic on each broker that has it, by the names of the brokers; at least one."""

    async def group(self, name: str) -> GroupRules:
        """The rules of a consumer group; those of a new one for a group that does not exist yet."""

    async def join(self, client: GrpcClient, heartbeat: Heartbeat) -> None:
        """A client is a member of these groups."""

    async def send(self, client: GrpcClient, broker_name: str, submission: Submission, body: bytes) -> Sent:
        """Store a message on a broker."""

    async def topic_of(self, ids: TransactionIds, topic: str) -> str:
        """The topic whose permissions the end of a transaction needs. ``topic``: as the client says."""

    async def end(
        self, client: GrpcClient, ids: TransactionIds, topic: str, resolution: Resolution, *, answers_check: bool
    ) -> None:
        """Commit or roll back, at any age, also again."""

    async def recall(self, client: GrpcClient, topic: str, handle: str) -> str:
        """Withdraw a delayed message; its UNIQ_KEY."""

    async def pop(
        self, receiver: Client, broker_name: str, wanted: PopRequest, reader: LiteReader | None
    ) -> Sequence[Popped]:
        """Messages of one broker, none when there were none for as long as the request may wait. When this is
        cancelled, what was taken is given back. Empty ``broker_name``: of any broker.
        ``reader``: who reads the lite topics of the topic; None: it has none."""

    async def read_lite(self, reader: LiteReader, change: LiteChange) -> None:
        """From now on these lite topics are read, too, or no more, or they alone."""

    async def forward(self, client: GrpcClient, delivery: PopDelivery, log_offset: int | None) -> None:
        """The message goes to the dead letters of the group, and its delivery ends. ``log_offset``: where it lies, as
        its receipt handle says."""
