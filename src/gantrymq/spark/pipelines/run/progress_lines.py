"""Progress of a job as JSON lines: one object per line, appended to a file and given to a listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import Disk, OsDisk

Listener = Callable[[Mapping[str, Any]], None]


def ignore(event: Mapping[str, Any]) -> None:
    """A listener that does nothing."""


class ProgressLines:
    """Reports events. Each line is one write, so a reader of the file never sees an incomplete line."""

    def __init__(self, path: str | None, listener: Listener = ignore, disk: Disk | None = None) -> None:
        self._listener = listener
        self._clock = SystemClock()
        self._file = (disk or OsDisk()).open(path, create=True) if path else None
        self._end = self._file.size() if self._file else 0

    def say(self, event: str, **facts: Any) -> None:
        line = {"event": event, "at_ms": self._clock.wall_ms(), **facts}
        if self._file:
            data = msgspec.json.encode(line) + b"\n"
            self._file.write(data, self._end)
            self._end += len(data)
        self._listener(line)

    def close(self) -> None:
        if self._file:
            self._file.close()
