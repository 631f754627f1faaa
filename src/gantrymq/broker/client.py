"""A client of the broker, whichever protocol it speaks: what operations may know about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from gantrymq.access.values import User
from gantrymq.broker.pushes import (
    AnswerDone,
    DirectConsumption,
    OffsetReset,
    PositionsDone,
    Reply,
    ReplyDone,
    RunningInfoQuestion,
)


class Check(Struct, frozen=True, gc=False):
    """One question. The answer is an ``EndRequest`` with the same offsets; no answer at all is waited for in vain."""

    group: str
    """The producer group of the half. Any of its members may answer."""
    unique_key: str
    """UNIQ_KEY of the half, which is its transaction id."""
    queue_offset: int
    """Of the half, in the half queue."""
    log_offset: int
    """Of the half, in the log."""
    topic: str
    """Where the message goes with a commit, not the half topic. Clients copy it into their answer (hole 22)."""
    queue_id: int
    times_asked: int
    """How many checks of this half there were since the broker started, with this one."""
    early: bool
    """Whether the half is still immune: its sender is gone, and its checkers are decisive."""
    broker_name: str
    store_host: bytes
    """Packed address of the broker that stored the half."""
    message: bytes
    """The message as a checker gets it: a log record at the place of the half, under the topic and queue above."""


class Reader(Protocol):
    """Somebody who is told something: a client, or who asks over HTTP."""

    @property
    def address(self) -> str:
        """``ip:port`` of the client."""

    @property
    def user(self) -> User | None:
        """As its last signed request said; None: not known; it may see nothing where there are users."""


class Client(Reader, Protocol):
    """One connection of a client, from its first request to its end.

    What it is a member of (producer groups, consumer groups) is in ``registries.clients``, by its ``id``.
    """

    @property
    def id(self) -> int:
        """Unique among all connections of this broker, whichever protocol they use."""

    @property
    def host(self) -> bytes:
        """The same as a record has it: packed address and port."""

    @property
    def alive(self) -> bool:
        """False from the end of the connection on."""

    @property
    def writable(self) -> bool:
        """False while the client does not read what was sent to it and too much is unsent."""


class Connection(Client, Protocol):
    """A client to which the broker can also send messages.

    Notifications to a client that has disconnected, or does not read, are dropped. Requests to such a client are
    answered with None at once. Every ``done`` is called exactly once, after ``seconds`` at the latest.
    """

    @property
    def protocol(self) -> str:
        """A word for people: ``remoting``, ``grpc``, or ``in process``."""

    # Notices and questions to consumers, and replies to producers.

    def members_changed(self, group: str) -> None:
        """A member joined or left the group, or its topics changed: the members must share the queues again."""

    def reset_offsets(self, reset: OffsetReset) -> None:
        """Go on elsewhere, and commit that."""

    def running_info(self, question: RunningInfoQuestion, seconds: float, done: AnswerDone) -> None:
        """What does this consumer do just now?"""

    def consume_directly(self, question: DirectConsumption, seconds: float, done: AnswerDone) -> None:
        """Consume one message now, and report the result."""

    def positions(self, group: str, topic: str, seconds: float, done: PositionsDone) -> None:
        """Which offsets does this consumer read next?"""

    def hand_reply(self, reply: Reply, seconds: float, done: ReplyDone) -> None:
        """The answer to a request that this producer sent."""

    # The check-back.

    def ask(self, check: Check) -> None:
        """Ask a producer how its local transaction ended. Nothing is returned: the answer arrives as a request."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A person who decides in place of a program."""

    note: str
    """The name and the reason that the person gave; they are stored with the decision."""
