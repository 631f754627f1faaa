"""Messages that are sent again: first what would be sent where, then the sending, message by message.

A broker that does not answer is waited for once. Its other messages are not tried any more, and the result says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from gantrymq.admin.audit import Phase
from gantrymq.admin.resending import copy_of
from gantrymq.console.parts import Console
from gantrymq.console.views import LIST_BODY
from gantrymq.errors import ConfigError, GantryError, TimedOut, Unreachable
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue

AT_ONCE_MAX: Final = 1_000
"""Messages of one "send again"."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One message, and what happens to it or did."""

    place: str
    """Of the message: ``broker/queue/offset``."""
    message: MessageView | None = None
    to: str = ""
    """The topic of the copy."""
    copy_id: str = ""
    """The offset message id of the copy, when it was sent."""
    problem: str = ""
    """Why it cannot be sent, or was not."""
    unknown: bool = False
    """No answer came after it was sent: it may be stored, so look before you send it once more."""

    @property
    def broker(self) -> str:
        return self.place.rsplit("/", 2)[0]


class Resend:
    """Copies for one group, or for everybody (None)."""

    def __init__(self, console: Console, group: str | None) -> None:
        self._console = console
        self._group = group
        self._silent: set[str] = set()

    def planned(self, message: MessageView) -> Copy:
        """What would be sent where."""
        place = f"{message.queue.broker_name}/{message.queue.queue_id}/{message.queue_offset}"
        try:
            return Copy(place, message, copy_of(message, self._group)[0])
        except ConfigError as error:
            return Copy(place, message, problem=str(error))

    async def read(self, topic: str, places: Iterable[str]) -> list[Copy]:
        """The messages at these places, planned. Raises ConfigError for what is no place."""
        queues = [(place, *_parsed(topic, place)) for place in dict.fromkeys(places)]
        if len(queues) > AT_ONCE_MAX:
            raise ConfigError(f"choose at most {AT_ONCE_MAX} messages at once")
        return [await self._read(place, queue, offset) for place, queue, offset in queues]

    async def _read(self, place: str, queue: MessageQueue, offset: int) -> Copy:
        if queue.broker_name in self._silent:
            return self._not_tried(Copy(place))
        try:
            message = await self._console.admin.messages.at(queue, offset, LIST_BODY)
        except (TimedOut, Unreachable) as error:
            self._silent.add(queue.broker_name)
            return Copy(place, problem=str(error))
        except GantryError as error:
            return Copy(place, problem=str(error))
        return Copy(place, problem="it is no longer there") if message is None else self.planned(message)

    async def send(self, copies: Iterable[Copy]) -> list[Copy]:
        """Send what can be sent, one after the other."""
        return [await self._send(copy) for copy in copies]

    async def _send(self, copy: Copy) -> Copy:
        if copy.problem or copy.message is None:
            return copy
        if copy.broker in self._silent:
            return self._not_tried(copy)
        try:
            whole = await self._whole(copy.message)
            if whole is None:
                return replace(copy, problem="it is no longer there")
            return replace(copy, copy_id=await self._console.admin.resending.resend(whole, self._group))
        except (TimedOut, Unreachable) as error:
            self._silent.add(copy.broker)
            return replace(copy, problem=str(error), unknown=isinstance(error, TimedOut))
        except GantryError as error:
            return replace(copy, problem=str(error))

    async def _whole(self, message: MessageView) -> MessageView | None:
        """A list keeps the beginnings of bodies, so that many large ones are never in memory together."""
        if not message.body_cut:
            return message
        return await self._console.admin.messages.at(message.queue, message.queue_offset)

    def _not_tried(self, copy: Copy) -> Copy:
        return replace(copy, problem=f"not tried: {copy.broker} did not answer before")


def outcome(copies: list[Copy]) -> tuple[Phase, str]:
    """How it ended, for the audit file."""
    sent = [copy for copy in copies if copy.copy_id]
    text = f"{len(sent)} of {len(copies)} sent"
    if sent:
        return Phase.DONE, text
    return Phase.UNKNOWN if any(copy.unknown for copy in copies) else Phase.REFUSED, text


def _parsed(topic: str, place: str) -> tuple[MessageQueue, int]:
    broker, queue, offset = [*place.rsplit("/", 2), "", ""][:3]
    if not broker or not queue.isdecimal() or not offset.isdecimal():
        raise ConfigError(f"{place!r} is no place of a message")
    return MessageQueue(topic, broker, int(queue)), int(offset)
