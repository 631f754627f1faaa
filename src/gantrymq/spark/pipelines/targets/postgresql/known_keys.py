"""Which keys of a batch a table in PostgreSQL has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gantrymq.spark.pipelines.targets.exact_values import tuples
from gantrymq.spark.pipelines.targets.postgresql.limits import Column, unfit
from gantrymq.spark.pipelines.targets.postgresql.rows import is_of_rows

if TYPE_CHECKING:
    import pyarrow as pa


def known_keys(connection: Any, table: Any, columns: Iterable[Column], keys: pa.Table) -> pa.Table:
    """Those of ``keys`` that the table has. ``table``: its name as an SQL identifier.

    A key that its column cannot have is in no row: its own row is refused later, and to look for it must not end a job.
    """
    import pyarrow as pa

    unfitting = unfit(keys, columns)
    fitting = pa.array((at for at in range(len(keys)) if at not in unfitting), pa.int64())
    return _but_refused(connection, table, keys.take(fitting))


def _but_refused(connection: Any, table: Any, keys: pa.Table) -> pa.Table:
    """Halves that the server refuses are halved again."""
    import psycopg
    import pyarrow as pa

    try:
        return _there(connection, table, keys)
    except psycopg.DatabaseError as error:
        if not is_of_rows(error):
            raise
    middle = len(keys) // 2
    if not middle:
        return keys.slice(0, 0)
    return pa.concat_tables(
        _but_refused(connection, table, some) for some in (keys.slice(0, middle), keys.slice(middle))
    )


def _there(connection: Any, table: Any, keys: pa.Table) -> pa.Table:
    import pyarrow as pa
    from psycopg import sql

    columns = sql.SQL(", ").join(map(sql.Identifier, keys.column_names))
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE gantry_keys ON COMMIT DROP AS SELECT {}, 0 AS gantry_row FROM {} WITH NO DATA"
            ).format(columns, table)
        )
        with cursor.copy(sql.SQL("COPY gantry_keys ({}, gantry_row) FROM STDIN").format(columns)) as copy:
            for number, row in enumerate(tuples(keys)):
                copy.write_row((*row, number))
        equal = sql.SQL(" AND ").join(
            sql.SQL("there.{0} = gantry_keys.{0}").format(sql.Identifier(name)) for name in keys.column_names
        )
        cursor.execute(
            sql.SQL("SELECT gantry_row FROM gantry_keys WHERE EXISTS (SELECT 1 FROM {} AS there WHERE {})").format(
                table, equal
            )
        )
        found = [row for (row,) in cursor.fetchall()]
        cursor.execute("DROP TABLE gantry_keys")  # the transaction may be one that goes on
    return keys.take(pa.array(found, pa.int64()))
