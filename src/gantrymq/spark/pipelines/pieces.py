"""The files of a Parquet table by their names: which ones count, and which ones are to be merged. No I/O.

A file holds the rows of one batch, or of several batches one after the other. Its name says of which ones::

    0000000007-0000000042-1500-<query>.parquet

This is a *piece*: batches 7 to 42 of a query, 1500 rows. A piece with a wider range replaces those inside it, so the
rename that gives a merged file its name is the one moment in which it takes their place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

MERGE_AT: Final = 32
"""So many pieces of about the same width are merged into one. A row is written again once per factor of 32."""
_NAME: Final = re.compile(r"(\d{10})-(\d{10})-(\d+)-(.+)\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """One file of a table."""

    query: str
    """The id of the streaming query, which stays the same as long as its checkpoint exists."""
    first: int
    """Number of its first batch."""
    last: int
    rows: int
    published: bool = False
    """Whether every reader of the directory sees the file; other pieces are only for readers who know these names."""

    @classmethod
    def of(cls, name: str, *, published: bool) -> Piece | None:
        """The piece with this file name; None if it is another file, for example an unfinished one."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        first, last, rows, query = match.groups()
        return cls(query, int(first), int(last), int(rows), published)

    @property
    def name(self) -> str:
        return f"{self.first:010d}-{self.last:010d}-{self.rows}-{self.query}.parquet"

    def covers(self, batch: int) -> bool:
        return self.first <= batch <= self.last

    def replaces(self, other: Piece) -> bool:
        """Whether the rows of ``other`` are in this piece as well."""
        inside = self.query == other.query and self.first <= other.first and other.last <= self.last
        wider = self.last - self.first > other.last - other.first
        return inside and self != other and (wider or self.published > other.published)

    @property
    def _level(self) -> int:
        width, level = self.last - self.first + 1, 0
        while width >= MERGE_AT:
            width, level = width // MERGE_AT, level + 1
        return level


def live(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces that together hold each row once, in order."""
    kept: list[Piece] = []
    # Widest first: what replaces a piece comes before it.
    for piece in sorted(pieces, key=lambda one: (one.query, one.first, -one.last, not one.published)):
        if not (kept and kept[-1].replaces(piece)):
            kept.append(piece)
    return kept


def merged(pieces: Sequence[Piece], *, published: bool = False) -> Piece:
    """The piece that replaces these neighbours of one query."""
    first, last = min(one.first for one in pieces), max(one.last for one in pieces)
    return Piece(pieces[0].query, first, last, sum(one.rows for one in pieces), published)


def to_merge(hidden: Sequence[Piece]) -> list[Piece]:
    """The newest pieces of one query that are to become one piece now; empty when nothing is to be done.

    They are of one level, so a large piece is not written again for the sake of a small one. If what they become would
    be merged with its neighbours at once, the neighbours are taken as well.
    """
    older = sorted(hidden)
    chosen: list[Piece] = []
    while older or chosen:
        newest = merged(chosen) if chosen else older.pop()
        same = [newest]
        while older and older[-1]._level == newest._level:
            same.append(older.pop())
        if len(same) < MERGE_AT:
            break
        chosen = [*chosen, *(same[1:] if chosen else same)]
    return sorted(chosen)
