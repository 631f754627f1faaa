"""Programs that are members of consumer groups: each in a simulated process, with its own way to process messages.

A program takes some time for a message, and the history records the message when the program has finished it. In
between anything may happen: an exception, a cancellation, a kill.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from gantrymq.client.lite_pull_consumer import LitePullConsumer
from gantrymq.client.push_consumer import PushConsumer
from gantrymq.client.results import ConsumeStatus, ReconsumeLater
from gantrymq.errors import GantryError
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.message import MessageView
from gantrymq.simulation.judging.history import History
from gantrymq.testing.local.node import Node, Process

TOPIC: Final = "Work"
POLLING, PUSHING, ORDERED = GROUPS = ("polling", "pushing", "ordered")
"""The groups: their members poll, have a listener, have one that consumes in order."""
SLOWEST_S = 0.4
"""What one message takes, at most."""


@dataclass(slots=True)
class Habits:
    """What programs do that they should not: how likely it is for each message, or each call."""

    raises: float = 0.0
    """The body of the loop, or the listener, raises instead of processing the message."""
    cancels: float = 0.0
    """A poll, a commit or a close is cancelled."""
    exits: float = 0.0
    """A listener ends in a BaseException: SystemExit, or a cancellation that nobody asked for."""
    dawdles: float = 0.0
    """A message takes ten times as long as the slowest."""


class Stumbled(Exception):
    """Raised by a program on purpose."""


@dataclass(slots=True)
class Member:
    """One process of a group. ``run`` is its program, from the start of the process to its end."""

    process: Process
    group: str
    rng: random.Random
    habits: Habits
    history: History
    injected: Counter[str]
    leaving: bool = False
    """Asked to end in good order."""
    serving: asyncio.Task[None] | None = None

    @property
    def node(self) -> Node:
        return self.process.node

    async def run(self) -> None:
        serve = self._poll_for_ever if self.group == POLLING else self._listen
        while not self.leaving:
            self.serving = asyncio.ensure_future(serve())
            await asyncio.wait([self.serving])
            if not self.serving.cancelled() and (error := self.serving.exception()) is not None:
                self._ended_by(error)
            await asyncio.sleep(self.rng.uniform(0.1, 2))
        self.history.add("left", member=self.node.name, group=self.group)

    def _ended_by(self, error: BaseException) -> None:
        if isinstance(error, Stumbled):
            self.injected["exception in the loop"] += 1
        elif not isinstance(error, GantryError):
            raise error

    # What is done with a message.

    def _received(self, messages: list[MessageView]) -> None:
        for message in messages:
            self.history.add("received", message=message.body.decode(), group=self.group, member=self.node.name)

    async def _work_on(self, message: MessageView) -> None:
        likely = self.rng.random()
        seconds = self.rng.uniform(0, SLOWEST_S) * self.rng.random()
        if self.rng.random() < self.habits.dawdles:
            self.injected["slow message"] += 1
            seconds = SLOWEST_S * 10
        await asyncio.sleep(seconds)
        if likely < self.habits.raises:
            raise Stumbled(message.body.decode())
        if self.node.alive:
            self.history.add(
                "processed", message=message.body.decode(), group=self.group, member=self.node.name,
                broker=message.queue.broker_name, topic=message.topic, queue=message.queue.queue_id,
                offset=message.queue_offset,
            )  # fmt: skip

    async def _closing(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close in good order, unless the process is dead; the close may be cancelled, and is called again then."""
        while self.node.alive and await self._cancelled(close, "close cancelled"):
            pass

    async def _cancelled(self, call: Callable[[], Awaitable[object]], what: str) -> bool:
        """Await a call; whether it was cancelled some time after its beginning."""
        if self.rng.random() >= self.habits.cancels:
            await call()
            return False
        task = asyncio.ensure_future(call())
        await self._cancel_after(task, self.rng.choice((0.0, 0.0004, 0.001, 0.01, self.rng.random())))
        if not task.cancelled():
            await task  # it ended before, perhaps with an exception
            return False
        self.injected[what] += 1
        return True

    async def _cancel_after(self, task: asyncio.Task[Any], seconds: float) -> None:
        """Returns when the task has ended, by itself or not."""
        try:
            await asyncio.wait([task], timeout=seconds)
        finally:
            task.cancel()
            await asyncio.wait([task])

    # Polling.

    async def _poll_for_ever(self) -> None:
        rng = self.rng
        commits = rng.random() < 0.4
        consumer = LitePullConsumer(
            self.group, name_servers=self.process.name_servers, outside=self.process.outside,
            from_where=ConsumeFromWhere.FIRST_OFFSET,
            auto_commit=not commits, auto_commit_interval_ms=rng.choice((0, 500, 5000)),
            poll_batch_size=rng.choice((1, 4, 10)), poll_timeout_ms=1000, pull_suspend_ms=5000, pull_timeout_ms=8000,
            rebalance_interval_ms=6000, max_messages_per_queue=rng.choice((4, 1000)),
        )  # fmt: skip
        await consumer.subscribe(TOPIC).start()
        try:
            while not self.leaving:
                await self._one_batch(consumer, commits=commits)
            if rng.random() < 0.5:
                await consumer.commit()
        finally:
            if self.node.alive:
                await self._closing(consumer.close)

    async def _one_batch(self, consumer: LitePullConsumer, *, commits: bool) -> None:
        rng = self.rng
        if rng.random() < 0.05:
            with contextlib.suppress(GantryError):  # a queue may be another's by now
                await consumer.pause(consumer.assigned[:1])
                self.injected["queue paused"] += 1
        elif rng.random() < 0.3:
            await consumer.resume(consumer.assigned)
        batch = await self._polled(consumer)
        self._received(batch)
        for message in batch:
            await self._work_on(message)
            if commits and rng.random() < 0.1:
                await self._committing(lambda: consumer.commit({message.queue: message.queue_offset + 1}))  # noqa: B023
        if batch and rng.random() < 0.05:
            with contextlib.suppress(GantryError):  # it may be another's by now
                await consumer.seek(batch[0].queue, batch[0].queue_offset)
                self.injected["sought back"] += 1
        elif commits or rng.random() < 0.05:
            await self._committing(consumer.commit)

    async def _committing(self, commit: Callable[[], Awaitable[None]]) -> None:
        with contextlib.suppress(GantryError):  # a broker is away; what was not stored comes again
            await self._cancelled(commit, "commit cancelled")

    async def _polled(self, consumer: LitePullConsumer) -> list[MessageView]:
        if self.rng.random() >= self.habits.cancels:
            return await consumer.poll()
        polling = asyncio.ensure_future(consumer.poll())
        try:
            await self._cancel_after(polling, self.rng.choice((0.0, 0.001, 2 * self.rng.random())))
        finally:  # as when a blocking call is interrupted on its way back
            if not polling.cancelled() and polling.exception() is None and polling.result():
                self.injected["result of a poll dropped"] += 1
                consumer.give_back_last()
        if polling.cancelled():
            self.injected["poll cancelled"] += 1
        return []

    # Having messages delivered.

    async def _listen(self) -> None:
        rng = self.rng
        consumer = PushConsumer(
            self.group, name_servers=self.process.name_servers, outside=self.process.outside,
            from_where=ConsumeFromWhere.FIRST_OFFSET,
            listener=self._listener, orderly=self.group == ORDERED, consume_threads=rng.choice((1, 3, 20)),
            consume_batch_size=rng.choice((1, 1, 5)), pull_suspend_ms=5000, pull_timeout_ms=8000, suspend_ms=300,
            rebalance_interval_ms=6000, persist_interval_ms=rng.choice((500, 5000)), close_timeout_ms=3000,
        )  # fmt: skip
        await consumer.subscribe(TOPIC).start()
        try:
            while not self.leaving:
                await asyncio.sleep(1)
        finally:
            if self.node.alive:
                await consumer.close()

    async def _listener(self, messages: list[MessageView]) -> ConsumeStatus | ReconsumeLater | None:
        self._received(messages)
        for message in messages:
            if self.rng.random() < self.habits.exits:
                self.injected["listener exited"] += 1
                raise self.rng.choice((SystemExit(1), asyncio.CancelledError()))
            try:
                await self._work_on(message)
            except Stumbled:
                self.injected["listener raised"] += 1
                raise
        if self.rng.random() < self.habits.raises:
            self.injected["listener wants it later"] += 1
            return self.rng.choice((ConsumeStatus.RECONSUME_LATER, ReconsumeLater(delay_level=1)))
        return None
