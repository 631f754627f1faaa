"""Topics that were deleted while the log still contains their records.

After a crash queues are rebuilt from the log. Records from before the deletion of their topic must not come back: a
topic that is created again is empty.
"""

from __future__ import annotations

import logging
import os

import msgspec

from gantrymq.runtime.disk import Disk, read_whole, write_durably

log = logging.getLogger("gantrymq.store")


class DeletedTopics:
    """Topic to the log offset before which its records do not count. A change is durable before the call returns."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self.positions: dict[str, int] = {}
        if disk.exists(path):
            try:
                self.positions = msgspec.json.decode(read_whole(disk, path), type=dict[str, int])
            except msgspec.MsgspecError as error:
                log.error("%s is unreadable (%s): deleted topics may come back after a crash", path, error)

    def add(self, topic: str, position: int) -> None:
        """Raises StoreError."""
        self._save(self.positions | {topic: position})

    def fit(self, start: int, end: int) -> None:
        """The log begins and ends there now: drop marks of records that no longer exist, and cover no future ones."""
        fitting = {topic: min(position, end) for topic, position in self.positions.items() if position > start}
        if fitting != self.positions:
            self._save(fitting)

    def _save(self, positions: dict[str, int]) -> None:
        self._disk.make_dirs(os.path.dirname(self._path))
        write_durably(self._disk, self._path, msgspec.json.encode(positions))
        self.positions = positions
