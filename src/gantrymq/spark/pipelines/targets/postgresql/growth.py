"""A table in PostgreSQL grows to the columns of a job, if the job says so: the table has another owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import PostgresqlTarget
from gantrymq.spark.pipelines.targets.databases import Databases
from gantrymq.spark.pipelines.targets.growth import TableDiffers, type_name
from gantrymq.spark.pipelines.targets.postgresql.limits import COLUMNS, Column
from gantrymq.spark.pipelines.targets.postgresql.server import PostgresqlServer

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES: Final = {
    "string": "text", "tinyint": "smallint", "smallint": "smallint", "int": "integer", "bigint": "bigint",
    "float": "real", "double": "double precision", "boolean": "boolean", "binary": "bytea", "date": "date",
    "timestamp": "timestamptz", "timestamp_ntz": "timestamp",
}  # fmt: skip
"""The types of new columns, by their names in Spark."""
_WIDER: Final = {
    "int2": ("int", "bigint"), "int4": ("bigint",), "float4": ("double",), "date": ("timestamp_ntz",),
}  # fmt: skip
"""What a type of the table can become."""


def grow(target: PostgresqlTarget, name: str, wanted: pa.Schema, databases: Databases) -> None:
    """Give the table the columns and types that it lacks, in one statement. Raises TableDiffers if it lacks columns and
    the job may not alter it, and ConfigError if the server refuses."""
    with _statement(target, name, wanted, databases) as (connection, statement):
        if statement is not None:
            connection.execute(statement)


def lacking(target: PostgresqlTarget, name: str, wanted: pa.Schema, databases: Databases) -> str:
    """The statement that ``grow`` would run; empty if there is none. Raises what ``grow`` raises."""
    with _statement(target, name, wanted, databases) as (connection, statement):
        return "" if statement is None else str(statement.as_string(connection))


@contextmanager
def _statement(
    target: PostgresqlTarget, name: str, wanted: pa.Schema, databases: Databases
) -> Iterator[tuple[Any, Any]]:
    """A connection, and what makes the table grow; None if it need not."""
    try:
        import psycopg
        from psycopg import sql
    except ImportError as error:
        raise ConfigError(
            f"the target postgresql needs the package psycopg; run: pip install 'gantrymq[postgresql]' ({error})"
        ) from error
    connected = databases.at(PostgresqlServer(target.dsn), name)
    table = sql.Identifier(*target.table.split("."))
    try:
        with connected() as connection:
            # Raises the server's error when the table does not exist or must not be read.
            connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(table))
            named = table.as_string(connection)
            columns = [Column(*row) for row in connection.execute(COLUMNS, (named,)).fetchall()]
            actions = list(_actions(columns, wanted, f"targets.{name}", grow=target.grow))
            statement = sql.SQL("ALTER TABLE {} {}").format(table, sql.SQL(", ").join(actions))
            yield connection, statement if actions else None
    except psycopg.Error as error:
        raise ConfigError(f"targets.{name}: PostgreSQL refuses: {str(error).strip()}; check dsn and table") from error


def _actions(columns: list[Column], wanted: pa.Schema, key: str, *, grow: bool) -> Iterator[Any]:
    """What is done to the table. Without ``grow`` only columns that are missing are an error: the owner may have other
    types, and values that do not fit them are dead letters."""
    known = {column.name: column for column in columns}
    for field in wanted:
        kind = _type(field.type)
        if field.name in known:
            wider = _wider(known[field.name], field.type) if grow else None
            if wider is not None:
                yield _action("ALTER COLUMN {} TYPE " + wider, field.name)
            continue
        if kind is None:
            raise TableDiffers(
                f"{key}: the table has no column {field.name}, and no type of PostgreSQL is just like "
                f"{type_name(field.type)}; add the column yourself, or convert it in the query, for example by to_json"
            )
        if not grow:
            raise TableDiffers(
                f"{key}: the table has no column {field.name}. Add it (ALTER TABLE ... ADD COLUMN {field.name} "
                f"{kind}); or write grow = true, so that the job does this; or leave it out of the query"
            )
        yield _action("ADD COLUMN IF NOT EXISTS {} " + kind, field.name)


def _action(text: Any, name: str) -> Any:
    from psycopg import sql

    return sql.SQL(text).format(sql.Identifier(name))


def _type(kind: pa.DataType) -> str | None:
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return _TYPES.get(type_name(kind))


def _wider(column: Column, wanted: pa.DataType) -> str | None:
    """The type that a column must get for all values; None: it stays."""
    import pyarrow as pa

    if column.digits is not None and pa.types.is_decimal(wanted):
        precision, scale = column.digits
        whole, behind = max(precision - scale, wanted.precision - wanted.scale), max(scale, wanted.scale)
        return None if (whole + behind, behind) == (precision, scale) else f"numeric({whole + behind},{behind})"
    return _TYPES[type_name(wanted)] if type_name(wanted) in _WIDER.get(column.type, ()) else None
