"""The event loop that broker, name server and blocking clients of a local cluster share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class LocalLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, which says when it has nothing to do."""

    _ready: deque[Any]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self.when_idle: Callable[[], None] = lambda: None
        """Called each time the loop is about to wait."""

    def _run_once(self) -> None:
        if not self._ready and not self._stopping:
            self.when_idle()
        super()._run_once()  # type: ignore[misc]


def has_work(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether calls wait for their turn on the loop. Only asyncio's own loops can be asked."""
    return bool(getattr(loop, "_ready", ()))


def can_be_asked(loop: asyncio.AbstractEventLoop) -> bool:
    return hasattr(loop, "_ready")
