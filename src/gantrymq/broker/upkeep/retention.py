"""Decides which log files are deleted, and when. The deletion itself: ``store/deletion.py``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

RETENTION_SECONDS: Final = 10.0
"""As Apache's ``cleanResourceInterval``: a disk that is full is left as soon as something may go."""


class Retention:
    """Deletes log files: those older than ``fileReservedTime`` in the hours of ``deleteWhen`` or when the disk gets
    full, the oldest whatever their age when it gets fuller still.

    What an undecided half message needs always stays. Source: CleanCommitLogService; docs/store.md#deleting.
    """

    def __init__(
        self,
        config: LiveConfig,
        store: MessageStore,
        clock: Clock,
        keep_from: Callable[[], int | None],
    ) -> None:
        """``keep_from``: log offset from which on everything must stay; None: anything may go."""
        self._config = config
        self._store = store
        self._clock = clock
        self._keep_from = keep_from

    def run(self) -> None:
        """A look at clock and disk."""
        config, now_ms = self._config, self._clock.wall_ms()
        percent = self._store.space.fullest()[1] * 100
        too_full = percent > config.retention.disk_space_clean_forcibly_ratio or self._store.room.nearly_full
        if config.retention.clean_file_forcibly_enable and too_full:
            self._delete(now_ms, 0)
        elif percent > config.retention.disk_max_used_space_ratio or self._is_time(now_ms):
            self._delete(now_ms, config.retention.file_reserved_time)

    def run_now(self) -> int:
        """Somebody asked: delete what is old enough at this hour, too; how many files."""
        return self._delete(self._clock.wall_ms(), self._config.retention.file_reserved_time)

    def _is_time(self, now_ms: int) -> bool:
        hour = datetime.fromtimestamp(now_ms / 1000).hour
        return any(part.strip() == str(hour) or part.strip() == f"{hour:02}" for part in self._hours())

    def _hours(self) -> list[str]:
        return self._config.retention.delete_when.split(";")

    def _delete(self, now_ms: int, hours: float) -> int:
        keep_from = self._keep_from()
        return self._store.delete_expired(now_ms, hours, self._store.max_log_offset if keep_from is None else keep_from)
