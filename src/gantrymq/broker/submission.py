"""How the sender of a message gets the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import structs

from gantrymq.broker.durability import refusal
from gantrymq.broker.refusal import Refused
from gantrymq.broker.stored import Stored as Stored
from gantrymq.errors import StoreError
from gantrymq.message.submission import Submission as Submission
from gantrymq.store.log.conditions import Unconfirmed

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
