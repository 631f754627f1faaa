"""What the statements about the outbox do in the simulated database. Source: gantrymq.sql.rows.outbox_table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from gantrymq.simulation.database.statements import Meaning, Rows
from gantrymq.simulation.database.tables import Values, Work
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.outbox_table import LONGEST_MS, OUTBOX, ROWS_AT_ONCE, OutboxStatements
from gantrymq.sql.rows.place import where

LAST: Final = "\x7f"
"""Behind every id."""
MOST_AT_ONCE: Final = 500
"""Rows of a batch of the relay."""


def of_outbox(statements: OutboxStatements, wall_ms: Callable[[], int]) -> dict[str, Meaning]:
    """The statements of PostgreSQL. ``wall_ms``: the clock of the database."""
    counts = range(1, MOST_AT_ONCE + 1)
    return {
        where(DatabaseKind.POSTGRESQL, OUTBOX): _nothing,
        f"SELECT id FROM {OUTBOX} WHERE id = ''": _nothing,
        **{statements.insert(count): partial(_insert, wall_ms) for count in range(1, ROWS_AT_ONCE + 1)},
        **{statements.delete(count): _delete for count in counts},
        **{statements.leave(count): partial(_leave, wall_ms) for count in counts},
        statements.take: partial(_take, wall_ms),
        statements.taken: _taken,
        statements.figures: _figures,
    }


async def _nothing(work: Work) -> Rows:
    return []


async def _insert(wall_ms: Callable[[], int], work: Work, *values: Any) -> Rows:
    """A row for each that it has inserted."""
    rows = [values[number : number + 6] for number in range(0, len(values), 6)]
    for *row, lasts_ms in rows:
        await work.insert(OUTBOX, row[0], (*row, wall_ms() + lasts_ms))
    return [(row[0],) for row in rows]


async def _delete(work: Work, *ids: str) -> Rows:
    return [(row,) for row in ids if await work.change(OUTBOX, row, lambda values: None)]


async def _leave(wall_ms: Callable[[], int], work: Work, lasts_ms: int, *ids: str) -> Rows:
    def left(values: Values) -> Values:
        return (*values[:4], "", wall_ms() + lasts_ms)

    return [(row,) for row in ids if await work.change(OUTBOX, row, left)]


async def _take(
    wall_ms: Callable[[], int], work: Work, me: str, lasts_ms: int, group: str, also_me: str, count: int
) -> Rows:  # fmt: skip
    now: int = wall_ms()
    taken: list[str] = []
    for key in list(work.keys(OUTBOX, "0", LAST)):
        values = work.get(OUTBOX, key)
        if values is None or values[1] != group or len(taken) == count:
            continue
        if values[4] == also_me or values[5] < now or values[5] > now + LONGEST_MS:
            taken.append(key)
    for key in taken:
        await work.change(OUTBOX, key, lambda values: (*values[:4], me, now + lasts_ms))
    return []


async def _taken(work: Work, group: str, me: str, count: int) -> Rows:
    rows = [work.get(OUTBOX, key) for key in work.keys(OUTBOX, "0", LAST)]
    return [(row[0], row[2], row[3]) for row in rows if row is not None and row[1] == group and row[4] == me][:count]


async def _figures(work: Work, group: str, count: int) -> Rows:
    ids = [key for key in work.keys(OUTBOX, "0", LAST) if (work.get(OUTBOX, key) or ("", ""))[1] == group][:count]
    return [(len(ids), ids[0] if ids else None)]
