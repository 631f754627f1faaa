"""Repeats a call while brokers restart: for a limited time, with growing pauses and jitter."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from gantrymq.errors import GantryError, RequestRejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.runtime.rng import Rng

log = logging.getLogger("gantrymq.spark")
T = TypeVar("T")

FIRST_PAUSE_S: Final = 0.02
WARN_AFTER_S: Final = 1.0
"""The first attempts fail silently: a restart that takes no longer than this disturbs nobody."""
WARN_EVERY_S: Final = 10.0
LONGEST_PAUSE_S: Final = 1.0
PASSING_CODES: Final = frozenset(
    {ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}
)
"""Refusals of a broker that is starting, stopping or overloaded."""


class BlockingClock(Protocol):
    """A clock for code that may block its thread."""

    def monotonic(self) -> float: ...

    def block(self, seconds: float) -> None: ...


def may_pass(error: GantryError) -> bool:
    """Whether the same call may succeed later."""
    if isinstance(error, RequestRejected):
        # Brokers refuse SQL expressions that are switched off with the code of a passing error, and with these words.
        return error.code in PASSING_CODES and "does not support" not in (error.remark or "")
    return error.retryable


class Patience:
    """Repeats calls until they succeed, for at most ``timeout_ms``. Warns now and then, and not at each attempt."""

    def __init__(self, timeout_ms: int, clock: BlockingClock, rng: Rng) -> None:
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._rng = rng

    def call(self, what: str, attempt: Callable[[], T]) -> T:
        """The result of ``attempt``. Raises its error when repeating cannot help, or when the time is over."""
        begin = self._clock.monotonic()
        warn_at = begin + WARN_AFTER_S
        pause = FIRST_PAUSE_S
        while True:
            try:
                return attempt()
            except GantryError as error:
                now = self._clock.monotonic()
                if not may_pass(error) or now + pause > begin + self._timeout_ms / 1000:
                    # Without the chain of what failed before: the sentence of this error says what to do.
                    raise error from None
                if now >= warn_at:
                    warn_at = now + WARN_EVERY_S
                    log.warning("%s fails since %.0f s and is tried again: %s", what, now - begin, error)
            self._clock.block(pause * (0.5 + self._rng.random()))
            pause = min(2 * pause, LONGEST_PAUSE_S)
