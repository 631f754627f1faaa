"""What a broker does beside answering: writes offsets, forgets silent clients, deletes old log files."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.errors import GantryError
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.tasks import TaskGroupOwner
from gantrymq.store.message_store import MessageStore

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


class Retention:
    """Deletes log files older than ``fileReservedTime`` in the hours of ``deleteWhen``, or when the disk gets full."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        clock: Clock,
        disk: Disk,
        keep_from: Callable[[], int | None],
    ) -> None:
        """``keep_from``: log offset from which on everything must stay; None: anything may go."""
        self._config = config
        self._store = store
        self._clock = clock
        self._disk = disk
        self._keep_from = keep_from
        self._hours = {int(part) for part in config.delete_when.split(";") if part.strip().isdigit()}

    def run(self) -> None:
        now = self._clock.wall_ms()
        usage = self._disk.usage(self._store.path(""))
        full = usage.total > 0 and usage.used * 100 > usage.total * self._config.disk_max_used_space_ratio
        if datetime.fromtimestamp(now / 1000).hour not in self._hours and not full:
            return
        keep_from = self._keep_from()
        self._store.delete_expired(
            now, self._config.file_reserved_time, self._store.max_log_offset if keep_from is None else keep_from
        )
