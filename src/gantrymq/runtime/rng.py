"""The random number generator that is passed to everything that needs one: jitter, choices and unique ids."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Rng(Protocol):
    """The source of all random values."""

    def random(self) -> float:
        """A float in [0, 1)."""

    def below(self, end: int) -> int:
        """An int in [0, end); ``end`` must be positive."""

    def choice(self, options: Sequence[T]) -> T:
        """One of ``options``, which must not be empty."""

    def token(self, size_bytes: int) -> bytes:
        """Unpredictable bytes for ids."""


class SystemRng:
    """The random numbers of the machine. With ``seed`` a run can be repeated (then ids repeat, too)."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # nosec B311 # what must not be guessed is made by ``token``
        self._seeded = seed is not None

    def random(self) -> float:
        return self._random.random()

    def below(self, end: int) -> int:
        return self._random.randrange(end)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def token(self, size_bytes: int) -> bytes:
        return self._random.randbytes(size_bytes) if self._seeded else os.urandom(size_bytes)
