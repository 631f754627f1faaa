"""A duty: what a broker does by itself for as long as it has a role, and not because somebody asks.

``roles.py`` lists the duties of each role. ``Duties`` walks such a list.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from gantrymq.errors import GantryError
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.broker")

Step: TypeAlias = Callable[[], Awaitable[None] | None]
"""A part of the life of a duty; it may wait for something."""


def nothing() -> None:
    """The step of a duty that has nothing to do then."""


@dataclass(frozen=True, slots=True)
class Duty:
    """Each step is called once, in this order. A duty that is needed again is made anew."""

    name: str
    """For people, as in "<name> failed"."""
    start: Step = nothing
    drain: Step = nothing
    """Begin nothing new, and return when what is under way is safe or has failed. The store still takes records."""
    stop: Step = nothing
    """End, and write what shortens the next start. Nothing of it goes on when this returns. It may raise GantryError or
    OSError: what it writes then is derived or repeatable."""


class Duties:
    """The duties of one role, in the order of their starts."""

    def __init__(self, duties: Sequence[Duty]) -> None:
        self._duties: Final = tuple(duties)
        self._started: list[Duty] = []

    @property
    def running(self) -> list[str]:
        """The names of those that were started, and not stopped."""
        return [duty.name for duty in self._started]

    async def start(self) -> None:
        """Start all of them. When one cannot start, those before it are stopped in reverse order, and its error is
        raised. One whose start is cancelled counts as started: it may have begun something."""
        for duty in self._duties:
            self._started.append(duty)
            try:
                await _taken(duty.start)
            except Exception:
                self._started.remove(duty)
                log.error("%s could not be started", duty.name)
                await self.drain()
                await self.stop()
                raise

    async def drain(self) -> None:
        """The last one first."""
        for duty in reversed(self._started):
            await _taken(duty.drain)

    async def stop(self) -> None:
        """The last one first. A step that fails is logged, and keeps no other one from its end."""
        while self._started:
            duty = self._started.pop()
            try:
                await _taken(duty.stop)
            except (GantryError, OSError) as error:
                # Each is derived or repeatable; the next start recovers.
                log.error("stopping %s: %s", duty.name, error)


async def _taken(step: Step) -> None:
    wait = step()
    if wait is not None:
        await wait


def repeated(clock: Clock, seconds: float, name: str, work: Callable[[], float | None]) -> Duty:
    """Work that is done every so many seconds, or in as many as it returned. A failure is logged, and it is tried again
    at its next turn."""
    tasks = TaskGroupOwner("duty")

    async def repeat() -> None:
        pause: float | None = None
        while True:
            await clock.sleep(seconds if pause is None else pause)
            try:
                pause = work()
            except (GantryError, OSError) as error:
                log.error("%s failed: %s", name, error)
                pause = None

    def start() -> None:
        tasks.start(name, repeat())

    return Duty(name, start=start, drain=tasks.stop)
