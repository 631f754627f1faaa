"""What the statements about the outbox do in the simulated database. Source: gantrymq.sql.rows.outbox_statements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from gantrymq.simulation.database.statements import Meaning, Rows
from gantrymq.simulation.database.tables import Values, Work
from gantrymq.sql.rows.dialect import DatabaseKind, Dialect
from gantrymq.sql.rows.outbox_statements import OutboxStatements, order_columns
from gantrymq.sql.rows.outbox_table import LONGEST_MS, OUTBOX, ROWS_AT_ONCE, order_ddl
from gantrymq.sql.rows.place import where

LAST: Final = "\x7f"
"""Behind every id."""
MOST_AT_ONCE: Final = 500
"""Rows of a batch of the relay."""
ID, GROUP, TOPIC, MESSAGE, TAKEN_BY, TAKEN_UNTIL, KEY, SEQ, HALF = range(9)
"""The columns."""


def of_outbox(dialect: Dialect, wall_ms: Callable[[], int], *, ordered: bool) -> dict[str, Meaning]:
    """The statements of PostgreSQL. ``wall_ms``: the clock of the database. ``ordered``: the table has the columns that
    ordering keys need."""
    counts = range(1, MOST_AT_ONCE + 1)
    numbers = itertools.count(1)
    plain, keyed = OutboxStatements(dialect), OutboxStatements(dialect, ordered=True)
    return {
        where(DatabaseKind.POSTGRESQL, OUTBOX): _nothing,
        order_columns(DatabaseKind.POSTGRESQL, OUTBOX): _a_row if ordered else _nothing,
        **{text: _nothing for text in order_ddl(DatabaseKind.POSTGRESQL)},
        f"SELECT id FROM {OUTBOX} WHERE id = ''": _nothing,
        **{plain.insert(count): partial(_insert, wall_ms, numbers) for count in range(1, ROWS_AT_ONCE + 1)},
        **{keyed.insert_ordered(count): partial(_insert_ordered, wall_ms, numbers)
           for count in range(1, ROWS_AT_ONCE + 1)},
        **{plain.delete(count): _delete for count in counts},
        **{plain.leave(count): partial(_leave, wall_ms) for count in counts},
        keyed.become: partial(_become, wall_ms),
        keyed.take: partial(_take, wall_ms, _is_head),
        plain.take: partial(_take, wall_ms, lambda *_: True),  # a product that forgets the heads comes here
        keyed.taken: partial(_taken, True),
        plain.taken: partial(_taken, False),
        plain.figures: _figures,
    }  # fmt: skip


async def _nothing(work: Work) -> Rows:
    return []


async def _a_row(work: Work) -> Rows:
    return [("half",)]


async def _insert(wall_ms: Callable[[], int], numbers: Iterator[int], work: Work, *values: Any) -> Rows:
    rows = [(*values[at : at + 6], "") for at in range(0, len(values), 6)]
    return await _insert_ordered(wall_ms, numbers, work, *(value for row in rows for value in row))


async def _insert_ordered(wall_ms: Callable[[], int], numbers: Iterator[int], work: Work, *values: Any) -> Rows:
    """A row for each that it has inserted."""
    rows = [values[at : at + 7] for at in range(0, len(values), 7)]
    for *row, lasts_ms, key in rows:
        await work.insert(OUTBOX, row[0], (*row, wall_ms() + lasts_ms, key, next(numbers), ""))
    return [(row[0],) for row in rows]


async def _delete(work: Work, *ids: str) -> Rows:
    return [(row,) for row in ids if await work.change(OUTBOX, row, lambda values: None)]


async def _become(wall_ms: Callable[[], int], work: Work, half: str, lasts_ms: int, row: str) -> Rows:
    changed = False

    def become(values: Values) -> Values:
        nonlocal changed
        changed = values[HALF] == ""
        return (*values[:TAKEN_BY], "", wall_ms() + lasts_ms, *values[KEY:HALF], half) if changed else values

    return [(row,)] if await work.change(OUTBOX, row, become) and changed else []


async def _leave(wall_ms: Callable[[], int], work: Work, lasts_ms: int, *ids: str) -> Rows:
    def left(values: Values) -> Values:
        return (*values[:TAKEN_BY], "", wall_ms() + lasts_ms, *values[KEY:])

    return [(row,) for row in ids if await work.change(OUTBOX, row, left)]


def _is_head(rows: list[Values], row: Values) -> bool:
    """No older row of its key is there."""
    return row[KEY] == "" or all(
        (other[GROUP], other[KEY]) != (row[GROUP], row[KEY]) or other[SEQ] >= row[SEQ] for other in rows
    )


async def _take(
    wall_ms: Callable[[], int], takes: Callable[[list[Values], Values], bool], work: Work, me: str, lasts_ms: int,
    group: str, also_me: str, *rest: Any,
) -> Rows:  # fmt: skip
    """``rest``: the group once more, where only heads are taken, and how many."""
    count: int = rest[-1]
    now: int = wall_ms()
    rows = _rows(work)
    free = [
        row
        for row in rows
        if row[GROUP] == group
        and (row[TAKEN_BY] == also_me or row[TAKEN_UNTIL] < now or row[TAKEN_UNTIL] > now + LONGEST_MS)
        and takes(rows, row)
    ]
    for row in free[:count]:
        await work.change(OUTBOX, row[ID], lambda values: (*values[:TAKEN_BY], me, now + lasts_ms, *values[KEY:]))
    return []


async def _taken(ordered: bool, work: Work, group: str, me: str, count: int) -> Rows:
    rows = [row for row in _rows(work) if row[GROUP] == group and row[TAKEN_BY] == me][:count]
    return [(row[ID], row[TOPIC], row[MESSAGE], *((row[KEY], row[HALF]) if ordered else ())) for row in rows]


async def _figures(work: Work, group: str, count: int) -> Rows:
    ids = [row[ID] for row in _rows(work) if row[GROUP] == group][:count]
    return [(len(ids), ids[0] if ids else None)]


def _rows(work: Work) -> list[Values]:
    """By their ids."""
    found = [work.get(OUTBOX, key) for key in work.keys(OUTBOX, "0", LAST)]
    return [row for row in found if row is not None]
