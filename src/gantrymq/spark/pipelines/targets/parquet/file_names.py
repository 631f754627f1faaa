"""The names of the files and directories of a Parquet table, which say whose rows they have. No I/O.

    0000000042-0000000042-1500-<query>.3f6c77aa01b2c3d4.parquet

These are 1500 rows of batch 42 of a query. The last word is of the task that wrote them. Files of earlier versions have
the rows of several batches, and no such word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

_NAME: Final = re.compile(r"(\d{10})-(\d{10})-(\d+)-([^.]+)(?:\.([0-9a-f]+))?\.parquet")


NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The directory name for null, which Spark and pyarrow read as null."""


def directory_text(value: Any) -> str:
    """A value as it is written in the name of a directory."""
    return NO_VALUE if value is None else quote(str(value), safe=" -_.")


def values_in(path: str) -> dict[str, str | None]:
    """The values that the directories of a path name."""
    pairs = (one.partition("=") for one in path.split("/")[:-1] if "=" in one)
    return {name: None if value == NO_VALUE else unquote(value) for name, _, value in pairs}


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """One file of a table."""

    query: str
    """The id of the streaming query, which stays the same as long as its checkpoint exists."""
    first: int
    """Number of its first batch."""
    last: int
    rows: int
    task: str = ""

    @classmethod
    def of(cls, name: str) -> Piece | None:
        """The piece with this file name; None if it is another file."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        first, last, rows, query, task = match.groups()
        return cls(query, int(first), int(last), int(rows), task or "")

    @property
    def name(self) -> str:
        task = f".{self.task}" if self.task else ""
        return f"{self.first:010d}-{self.last:010d}-{self.rows}-{self.query}{task}.parquet"

    @property
    def staged_name(self) -> str:
        """Its name before it is committed, when the task that writes it does not know yet how many rows it gets."""
        return f"{self.task}.parquet"


def staged_name(path: str) -> str:
    """The name before its commit of the file at this path in a table."""
    piece = Piece.of(path.rpartition("/")[2])
    return piece.staged_name if piece else ""
