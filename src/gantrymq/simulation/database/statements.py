"""What SQL statements do in the simulated database. It knows each of them by its whole text."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gantrymq.simulation.database.tables import Values, Work
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.place import where
from gantrymq.sql.rows.tables import CLEANED, DATABASE, NOW, OutcomeStatements

Rows = list[tuple[Any, ...]]
Meaning = Callable[..., Awaitable[Rows]]
"""Called with the transaction, and with the parameters."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with its parameters."""

    run: Callable[[Work], Awaitable[Rows]]
    rescues: bool = False
    """It may be executed behind one that failed, in the same transaction."""


class Language:
    """Reads statements."""

    def __init__(self, meanings: Iterable[dict[str, Meaning]]) -> None:
        self._meanings = {text: meaning for some in meanings for text, meaning in some.items()}

    def read(self, text: str, parameters: tuple[Any, ...]) -> Statement:
        """Raises KeyError for a statement that nobody has described here."""
        for pattern, read in _PATTERNS:
            found = pattern.match(text)
            if found is not None:
                return read(found)
        meaning = self._meanings[text]
        return Statement(lambda work: meaning(work, *parameters))


def _create_table(found: re.Match[str]) -> Statement:
    async def create(work: Work) -> Rows:
        work.create_table(found[1], "PRIMARY KEY" in found[2])
        return []

    return Statement(create)


def _create_index(found: re.Match[str]) -> Statement:
    async def nothing(work: Work) -> Rows:
        return []

    return Statement(nothing)


def _savepoint(found: re.Match[str]) -> Statement:
    async def mark(work: Work) -> Rows:
        (work.roll_back_to if found[1] else work.release if found[2] else work.savepoint)(found[3])
        return []

    return Statement(mark, rescues=bool(found[1]))


_PATTERNS: Final = (
    (re.compile(r"CREATE TABLE IF NOT EXISTS (\w+) \((.*)\)", re.DOTALL), _create_table),
    (re.compile(r"CREATE INDEX"), _create_index),
    (re.compile(r"(ROLLBACK TO )?(RELEASE )?SAVEPOINT (\w+)$"), _savepoint),
)


# Statements about any table: its first column is the key.


async def insert(work: Work, table: str, *values: Any) -> Rows:
    await work.insert(table, values[0], values)
    return []


async def select(work: Work, table: str, *keys: str) -> Rows:
    return [values for key in keys if (values := work.get(table, key)) is not None]


async def add(work: Work, table: str, amount: int, key: str) -> Rows:
    """UPDATE table SET the second column = that + amount WHERE the key is ..."""

    def changed(values: Values) -> Values:
        return (values[0], values[1] + amount, *values[2:])

    await work.change(table, key, changed)
    return []


# The outcome table. Source: gantrymq.sql.rows.tables.


def of_outcomes(
    statements: OutcomeStatements, table: str, claim_timeout_s: float, wall_ms: Callable[[], int]
) -> dict[str, Meaning]:
    """The statements of PostgreSQL. ``wall_ms``: the clock of the database."""

    async def now(work: Work) -> Rows:
        return [(wall_ms(),)]

    return {
        NOW[DatabaseKind.POSTGRESQL]: now,
        statements.insert: lambda work, *values: insert(work, table, *values),
        statements.decide: partial(_decide, table=table),
        statements.decide_by_row: partial(_decide, table=table, outcome=3),
        **{statements.insert_more(count): partial(_insert_more, table=table) for count in range(1, 501)},
        where(DatabaseKind.POSTGRESQL, table): _nowhere,
        statements.find: lambda work, which: select(work, table, which, CLEANED, DATABASE),
        statements.claim: partial(_claim, table=table, patience_s=claim_timeout_s),
        statements.move_horizon: partial(_move_horizon, table=table),
        statements.cleaning.edge: partial(_edge, table=table),
        statements.cleaning.count: partial(_count, table=table),
        statements.cleaning.delete: partial(_delete, table=table),
    }


async def _insert_more(work: Work, *values: Any, table: str) -> Rows:
    rows = [values[number : number + 3] for number in range(0, len(values), 3)]
    for row in rows:
        await insert(work, table, *row)
    return [(row[0],) for row in rows]


async def _decide(work: Work, identity: str, which: str, group: str, *, table: str, outcome: int = 1) -> Rows:
    """One row for the row that it has inserted."""
    here = work.get(table, DATABASE)
    if here is None or here[2] != identity:
        return []
    await insert(work, table, which, outcome, group)
    return [(which,)]


async def _nowhere(work: Work) -> Rows:
    """There are no schemas."""
    return []


async def _claim(work: Work, compared: str, which: str, group: str, *, table: str, patience_s: float) -> Rows:
    work.patience_s = patience_s
    horizon = await work.get_locked(table, CLEANED)
    if horizon is not None and horizon[2] > compared:
        which = CLEANED
    return await insert(work, table, which, 2, group)


async def _move_horizon(work: Work, horizon: str, above: str, *, table: str) -> Rows:
    def moved(values: Values) -> Values:
        return (*values[:2], horizon) if values[2] < above else values

    await work.change(table, CLEANED, moved)
    return []


async def _edge(work: Work, first: str, count: int, horizon: str, *, table: str) -> Rows:
    batch = list(work.keys(table, first, horizon))[:count]
    return [(batch[-1] if batch else None,)]


def _batch(work: Work, table: str, first: str, last: str) -> list[str]:
    return list(work.keys(table, first, f"{last}\0"))  # with the last one


async def _count(work: Work, first: str, last: str, *, table: str) -> Rows:
    return [(len(_batch(work, table, first, last)),)]


async def _delete(work: Work, first: str, last: str, *, table: str) -> Rows:
    for key in _batch(work, table, first, last):
        await work.change(table, key, lambda values: None)
    return []
