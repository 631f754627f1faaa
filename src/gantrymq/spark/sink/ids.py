"""The ids of half messages. An id names the query, the batch, the attempt of a task and the row, so that a checker can
find the decision about a half message by its id alone, in any process.

    UNIQ_KEY   query 16 | batch 8 | attempt 16 | row 8        hexadecimal digits, upper case

An attempt is one run of one task. It has a new random name each time: when a batch runs again, Spark may give the rows
to the tasks in another order, so an old half message must never stand for a row of a new run.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gantrymq.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

KEY_CHARACTERS: Final = 48
_ROW_DIGITS: Final = 8
_MOST: Final = 1 << 4 * _ROW_DIGITS
_KEY: Final = re.compile("([0-9A-F]{16})([0-9A-F]{8})([0-9A-F]{16})([0-9A-F]{8})")
_DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)
_SHIFTS: Final[Any] = np.arange(4 * (_ROW_DIGITS - 1), -1, -4, dtype=np.uint32)


@dataclass(frozen=True, slots=True)
class BatchId:
    """One batch of one query: what is decided as a whole."""

    query: str
    """16 digits; see ``query_digits``."""
    batch: int

    def __post_init__(self) -> None:
        if not 0 <= self.batch < _MOST:
            raise ConfigError(f"the batch number {self.batch} does not fit into {_ROW_DIGITS} hexadecimal digits")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of one task of a batch."""

    of: BatchId
    token: str
    """16 random digits."""

    @property
    def prefix(self) -> str:
        """The ids of its half messages without the row."""
        return f"{self.of.query}{self.of.batch:08X}{self.token}"


def query_digits(query_id: str) -> str:
    """The 16 digits that stand for a query id of Spark, or for the name of a write."""
    return hashlib.sha256(query_id.encode()).hexdigest()[:16].upper()


def attempt_of(unique_key: str) -> Attempt | None:
    """The attempt that an id names; None when it is not an id of this sink."""
    found = _KEY.fullmatch(unique_key)
    return None if found is None else Attempt(BatchId(found[1], int(found[2], 16)), found[3])


def unique_keys(prefix: str, rows: npt.NDArray[np.uint32]) -> npt.NDArray[np.bytes_]:
    """The ids of these rows of an attempt."""
    keys: Any = np.empty((len(rows), KEY_CHARACTERS), dtype=np.uint8)
    keys[:, : len(prefix)] = np.frombuffer(prefix.encode(), dtype=np.uint8)
    keys[:, len(prefix) :] = _DIGITS[(rows[:, None] >> _SHIFTS) & 15]
    return keys.reshape(-1).view(f"S{KEY_CHARACTERS}")
