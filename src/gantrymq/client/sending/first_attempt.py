"""Sends a half message without a task, as long as its first attempt succeeds. The others are made in a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from gantrymq.client.results import SendResult
from gantrymq.client.sending.callbacks import in_task, outcome_of
from gantrymq.client.sending.delivery import Delivery, MakeFrame, Tried
from gantrymq.errors import TimedOut, Unreachable
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.command import Command
from gantrymq.remoting.channel import ClientChannel
from gantrymq.runtime.tasks import TaskGroupOwner

Sent: TypeAlias = SendResult | BaseException


class FirstAttempt:
    """One half message on its way."""

    __slots__ = (
        "_channel", "_delivery", "_limit_ms", "_make", "_message_id", "_only", "_started", "_target", "_tasks", "_then",
    )  # fmt: skip

    def __init__(
        self, delivery: Delivery, tasks: TaskGroupOwner, way: tuple[MessageQueue, ClientChannel], message_id: str,
        make: MakeFrame, started: float, limit_ms: int, then: Callable[[Sent], None], only: MessageQueue | None = None,
    ) -> None:  # fmt: skip
        """``way``: as ``Delivery.way`` gave it at ``started`` (monotonic seconds). ``then`` gets the result, or the
        error, once. ``only``: the one queue it may go to; None: any."""
        self._delivery = delivery
        self._tasks = tasks
        self._target, self._channel = way
        self._message_id = message_id
        self._make = make
        self._started = started
        self._limit_ms = limit_ms
        self._then = then
        self._only = only

    def send(self) -> None:
        """Raises nothing that the network does."""
        channel = self._channel
        opaque = channel.next_opaque()
        frame = self._make(self._target, opaque)
        channel.request(opaque, frame, self._limit_ms, self._started).add_done_callback(self._answered)

    def _answered(self, answer: asyncio.Future[Command]) -> None:
        found = outcome_of(answer)
        if isinstance(found, Command):
            try:
                result = self._delivery.settled(found, self._target, self._message_id, self._started)
            except Exception as error:  # noqa: BLE001 - whoever waits for it gets it
                self._then(error)
                return
            if result is not None:
                self._then(result)
                return
        elif not isinstance(found, Unreachable | TimedOut):
            self._then(found)
            return
        first = Tried(self._target, self._channel.address, found, self._started)
        # After an attempt with an unknown outcome only the same broker is tried, because no other broker can join the
        # two half messages.
        rest = self._delivery.deliver(
            self._target.topic, self._message_id, self._make, self._started + self._limit_ms / 1000, self._only,
            stay=True, first=first,
        )  # fmt: skip
        in_task(self._tasks, "half", rest, self._then)
