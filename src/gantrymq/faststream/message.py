"""A message as FastStream's handlers get it, and what becomes of it behind the handler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from faststream.message import StreamMessage

from gantrymq.client.results import ReconsumeLater
from gantrymq.message.message import MessageView

DEAD_LETTER: Final = ReconsumeLater(delay_level=-1)
AGAIN: Final = ReconsumeLater()


@dataclass(slots=True)
class Fate:
    """What becomes of the messages of one delivery. A batch has one fate."""

    decided: bool = False
    again: ReconsumeLater | None = None
    """None, once it is decided: the messages are consumed."""

    def decide(self, again: ReconsumeLater | None) -> None:
        """The first decision counts."""
        if not self.decided:
            self.decided, self.again = True, again

    @property
    def answer(self) -> ReconsumeLater | None:
        """What the consumer is told. Messages that nobody acknowledged are delivered again."""
        return self.again if self.decided else AGAIN


class Received(MessageView, kw_only=True):
    """A message that a subscriber got: ``raw_message`` of a GantryMessage."""

    fate: Fate

    @classmethod
    def of(cls, view: MessageView, fate: Fate) -> Self:
        values = {name: getattr(view, name) for name in MessageView.__struct_fields__}
        return cls(**values, fate=fate)


Raw = MessageView | Sequence[MessageView]
"""One message, or those of a batch."""


class GantryMessage(StreamMessage[Any]):
    """What a handler gets by ``msg: GantryMessage`` (from ``gantrymq.faststream.annotations``).

    ``raw_message`` is the ``MessageView`` of the client, with tags, keys, properties, queue and ``reconsume_times``; of
    a batch it is a tuple of them. ``headers`` are the user properties.

    The decision is made when the handler has returned. So call ``ack``, ``nack`` or ``reject`` inside the handler.
    """

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        raw = self.raw_message
        first = raw if isinstance(raw, MessageView) else next(iter(raw), None)
        self._fate: Fate = getattr(first, "fate", None) or Fate()

    async def ack(self) -> None:
        """The message is consumed."""
        self._fate.decide(None)
        await super().ack()

    async def nack(self, *, delay_level: int = 0, suspend_ms: int | None = None) -> None:
        """Deliver the message again, and after ``max_reconsume_times`` put it into the dead letters of the group.

        ``delay_level``: 1..18 as of the broker's ``messageDelayLevel``; 0: the broker decides (10 s, 30 s, 1 min ...).
        ``suspend_ms``: how long the queue of an orderly subscriber pauses.
        """
        self._fate.decide(ReconsumeLater(delay_level=delay_level, suspend_ms=suspend_ms))
        await super().nack()

    async def reject(self) -> None:
        """Put the message into the dead letters of the group at once. An orderly subscriber delivers it again instead,
        until ``max_reconsume_times``, because RocketMQ has no other way."""
        self._fate.decide(DEAD_LETTER)
        await super().reject()


def messages_in(raw: Raw) -> Sequence[MessageView]:
    """The messages of a ``raw_message``: one, or those of a batch."""
    return (raw,) if isinstance(raw, MessageView) else raw
