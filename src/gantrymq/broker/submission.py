"""A message that is sent to the broker, and how its sender gets the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import structs

from gantrymq.broker.durability import refusal
from gantrymq.broker.refusal import Refused
from gantrymq.broker.stored import Stored as Stored
from gantrymq.errors import StoreError
from gantrymq.store.log.conditions import Unconfirmed


class Submission(Protocol):
    """What a client sends besides the body. The header of a remoting request has these fields."""

    @property
    def producer_group(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def default_topic(self) -> str:
        """The topic whose settings a topic gets that does not exist yet."""

    @property
    def default_topic_queue_nums(self) -> int: ...

    @property
    def queue_id(self) -> int:
        """Negative: the broker chooses a queue."""

    @property
    def sys_flag(self) -> int: ...

    @property
    def born_timestamp(self) -> int:
        """Milliseconds since 1970 by the sender's clock."""

    @property
    def flag(self) -> int: ...

    @property
    def properties(self) -> str | None:
        """The text of the properties, as ``message.properties`` writes it."""

    @property
    def reconsume_times(self) -> int | None:
        """How often the message was delivered and not consumed."""

    @property
    def max_reconsume_times(self) -> int | None:
        """Only of messages for a retry topic: how often it may be."""


class ReplySubmission(Submission, Protocol):
    """A reply as its sender gives it, beside the body."""

    @property
    def unit_mode(self) -> bool | None:
        """Handed to the requester as it is."""


Answered: TypeAlias = Callable[[Stored | Refused], None]
"""Called once: when the message is as safe as its sender asked for, or when it could not be made so."""


def answer(answered: Answered, stored: Stored, error: StoreError | None) -> None:
    """Tell a sender how the write of its message ended."""
    answered(stored if error is None else not_safe(stored, error))


def not_safe(stored: Stored, error: StoreError) -> Stored | Refused:
    """What the sender of a message hears of an error: it is refused, or stored here and not confirmed in time."""
    if isinstance(error, Unconfirmed):
        return structs.replace(stored, status=error.status)
    return refusal(error)
