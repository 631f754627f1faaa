"""What a broker does beside answering: writes offsets, forgets silent clients, deletes old log files."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.broker")

EXPIRY_SECONDS: Final = 10.0
RETENTION_SECONDS: Final = 60.0


class Housekeeping:
    """Runs each piece of work at its own interval; one that fails is logged and tried again at its next turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks = TaskGroupOwner("housekeeping")

    def every(self, seconds: float, name: str, work: Callable[[], None]) -> None:
        self._tasks.start(name, self._repeat(seconds, name, work))

    async def _repeat(self, seconds: float, name: str, work: Callable[[], None]) -> None:
        while True:
            await self._clock.sleep(seconds)
            try:
                work()
            except (GantryError, OSError) as error:
                log.error("%s failed: %s", name, error)

    async def close(self) -> None:
        await self._tasks.stop()
