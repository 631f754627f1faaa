"""Rows that pass through the driver, where one of them is refused; and keys that are looked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from gantrymq.spark.pipelines.targets.exact_values import tuples
from gantrymq.spark.pipelines.targets.mysql.limits import Column, unfit
from gantrymq.spark.pipelines.targets.mysql.server import MysqlSession, column, is_of_rows, quoted, said_by
from gantrymq.spark.pipelines.targets.mysql.stage import on_equal_key

if TYPE_CHECKING:
    import pyarrow as pa

STATEMENT_ROWS: Final = 1000
STATEMENT_BYTES: Final = 1 << 20
"""The most in one statement. A server refuses large ones (``max_allowed_packet``), 16 MB if nobody has set it."""


def refused_rows(
    session: MysqlSession, table: str, rows: pa.Table, key: Sequence[str], begin: int, end: int
) -> dict[int, str]:
    """Insert these rows inside a transaction, but those that the server refuses, which are returned with its reasons.
    A statement that fails leaves nothing, so halves that fail are halved again, in order: each row meets the rows
    before it."""
    import pymysql

    part = rows.slice(begin, end - begin)
    if end - begin == 1 or (end - begin <= STATEMENT_ROWS and part.nbytes <= STATEMENT_BYTES):
        try:
            _insert(session, table, part, key)
        except pymysql.err.Error as error:
            if not is_of_rows(error):
                raise
            if end - begin == 1:
                return {begin: said_by(error)}
        else:
            return {}
    middle = (begin + end) // 2
    first = refused_rows(session, table, rows, key, begin, middle)
    return first | refused_rows(session, table, rows, key, middle, end)


def _insert(session: MysqlSession, table: str, rows: pa.Table, key: Sequence[str]) -> None:
    listed, marks = ", ".join(map(column, rows.column_names)), ", ".join(["%s"] * len(rows.column_names))
    # One statement for all rows: the driver would make several of a long list, and the first ones would stay.
    values = [value for row in tuples(rows) for value in row]
    session.execute(
        f"INSERT INTO {quoted(table)} ({listed}) VALUES "  # nosec B608 # quoted names
        f"{', '.join([f'({marks})'] * len(rows))} {on_equal_key(rows.column_names, key)}",
        values,
    )


def known_keys(session: MysqlSession, table: str, columns: Iterable[Column], keys: pa.Table) -> pa.Table:
    """Those of ``keys`` that the table has. A key that its column cannot have is in no row."""
    import pyarrow as pa

    unfitting = unfit(keys, columns)
    fitting = keys.take(pa.array((at for at in range(len(keys)) if at not in unfitting), pa.int64()))
    names = keys.column_names
    listed, marks = ", ".join(map(column, names)), ", ".join(["%s"] * len(names))
    session.execute("DROP TEMPORARY TABLE IF EXISTS gantry_keys")
    session.execute(
        f"CREATE TEMPORARY TABLE gantry_keys (gantry_row bigint) AS SELECT {listed} FROM {quoted(table)} LIMIT 0"  # nosec B608 # the same
    )
    session.insert(
        f"INSERT INTO gantry_keys ({listed}, gantry_row) VALUES ({marks}, %s)",  # nosec B608 # the same
        ((*row, number) for number, row in enumerate(tuples(fitting))),
    )
    equal = " AND ".join(f"there.{column(name)} = gantry_keys.{column(name)}" for name in names)
    found = session.execute(
        f"SELECT gantry_row FROM gantry_keys WHERE EXISTS (SELECT 1 FROM {quoted(table)} AS there WHERE {equal})"  # nosec B608 # the same
    )
    session.execute("DROP TEMPORARY TABLE gantry_keys")
    return fitting.take(pa.array((row for (row,) in found), pa.int64()))
