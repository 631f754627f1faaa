"""When old rows are deleted: once an hour in the background, by whichever process comes first. Errors are logged."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.rng import SystemRng

log = logging.getLogger("gantrymq.sql")
EVERY_S: Final = 3_600.0
FIRST_WITHIN_S: Final = 60.0
"""Processes that start together do not clean together."""
STOP_S: Final = 5.0


def first_s() -> float:
    return FIRST_WITHIN_S * (0.5 + SystemRng().random() / 2)


class Upkeep:
    """Calls a function again and again in a thread."""

    def __init__(self, clean: Callable[[], None]) -> None:
        self._clean = clean
        self._stopped = threading.Event()
        self._worker = threading.Thread(target=self._run, name="gantrymq-clean", daemon=True)
        self._worker.start()

    def _run(self) -> None:
        pause = first_s()
        while not self._stopped.wait(pause):
            try:
                self._clean()
            except Exception as error:  # noqa: BLE001 - nobody waits for it, and the next hour tries again
                if not self._stopped.is_set():
                    _failed(error)
            pause = EVERY_S

    def stop(self) -> None:
        """Call it no more. Waits some seconds for a call that is running."""
        self._stopped.set()
        if self._worker is not threading.current_thread():
            self._worker.join(STOP_S)


async def clean_for_ever(clean: Callable[[], Awaitable[None]]) -> None:
    """The same as a task."""
    pause = first_s()
    while True:
        await SystemClock().sleep(pause)
        try:
            await clean()
        except Exception as error:  # noqa: BLE001 - as above
            _failed(error)
        pause = EVERY_S


class Hourly:
    """For who does something often, and wants to clean once an hour."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._next = self._clock.monotonic() + first_s()

    def is_due(self) -> bool:
        """Whether an hour is over. True once for each."""
        now = self._clock.monotonic()
        if now < self._next:
            return False
        self._next = now + EVERY_S
        return True


def in_thread(clean: Callable[[], None]) -> None:
    """Call it once, in a thread that nobody waits for."""

    def run() -> None:
        try:
            clean()
        except Exception as error:  # noqa: BLE001 - as above
            _failed(error)

    threading.Thread(target=run, name="gantrymq-clean", daemon=True).start()


_tasks: Final[set[asyncio.Task[None]]] = set()
"""The loop itself holds them only weakly."""


def in_task(clean: Callable[[], Awaitable[None]]) -> None:
    """The same as a task of the running loop."""

    async def run() -> None:
        try:
            await clean()
        except Exception as error:  # noqa: BLE001 - as above
            _failed(error)

    task = asyncio.get_running_loop().create_task(run())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _failed(error: Exception) -> None:
    log.warning("old rows could not be deleted; it is tried again in an hour: %s: %s", type(error).__name__, error)
