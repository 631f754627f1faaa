"""The event loop that AsyncTransactions belong to: connections of databases and brokers work on no other one."""

from __future__ import annotations

import asyncio
from typing import Final

from gantrymq.errors import ConfigError

ELSEWHERE: Final = (
    "these AsyncTransactions belong to another event loop, the one that started them; neither their connections nor "
    "their messages can be used from here. Make AsyncTransactions (and the engine) on each loop that needs them, or "
    "hand the work over with asyncio.run_coroutine_threadsafe(coroutine, loop)"
)


class OwnLoop:
    """The loop that runs now."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def check(self) -> None:
        """Raises ConfigError on another loop, and in a thread that has none."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigError(ELSEWHERE) from None
        if running is not self._loop:
            raise ConfigError(ELSEWHERE)
