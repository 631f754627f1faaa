"""Decides which write or sync of a simulated disk fails next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass
class Failures:
    """What fails next: a part of the path of the file. Each fails once, and is counted when it does."""

    injected: Counter[str]
    sync: str | None = None
    write: str | None = None

    def sync_fails(self, path: str) -> bool:
        if self.sync is None or self.sync not in path:
            return False
        self.sync = None
        self.injected["sync failed"] += 1
        return True

    def write_fails(self, path: str) -> bool:
        if self.write is None or self.write not in path:
            return False
        self.write = None
        self.injected["write failed"] += 1
        return True
