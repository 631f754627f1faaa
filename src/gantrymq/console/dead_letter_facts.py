"""What is known of a dead letter: where it came from, how often it was delivered, why it was given up, and whether it
was sent again already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gantrymq.admin.resending import origin_topic
from gantrymq.message import properties
from gantrymq.message.message import MessageView


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter."""

    message: MessageView
    origin: str
    """The topic that it was sent to first."""
    deliveries: int
    """How many times the group had got it when it was given up."""
    why: str
    again_ms: int | None
    """When it was last sent to the group again; None: never, as far as the retry topic still says."""


def dead_letter(message: MessageView, retry_max: int | None, copies: Iterable[MessageView]) -> DeadLetter:
    """``retry_max``: how often the group retries; None: not known. ``copies``: messages of the group's retry topic
    with the same id. A copy that was stored after the dead letter was sent by somebody."""
    after = [copy.store_timestamp for copy in copies if copy.store_timestamp > message.store_timestamp]
    deliveries = max(message.reconsume_times, 1)
    return DeadLetter(message, origin_topic(message), deliveries, reason(message, retry_max),
                      max(after, default=None))  # fmt: skip


def reason(message: MessageView, retry_max: int | None) -> str:
    """Brokers store no error of a consumer, so this says what they know."""
    limit = message.properties.get(properties.MAX_RECONSUME_TIMES)
    most = int(limit) if limit is not None and limit.isdecimal() and len(limit) < 9 else retry_max
    if most is not None and message.reconsume_times >= most > 0:
        return f"every delivery failed, up to the limit of {most} retries"
    if most is not None and most <= 0:
        return "the group does not retry"
    return "a consumer gave it up before the limit of retries"
