"""Reads the orders that ``reconcile`` compares with: from SQLite, PostgreSQL, Parquet, or any data frame."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.describe.addresses import directory_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class OrderColumns:
    """What the columns of the orders are called there."""

    order_id: str = "order_id"
    user_id: str = "user_id"
    amount_cents: str = "amount_cents"
    status: str = "status"

    @classmethod
    def of(cls, text: str) -> OrderColumns:
        """The names in ``order_id=id,user_id=customer``. Raises ConfigError for another text."""
        pairs = [word.strip().partition("=") for word in text.split(",") if word.strip()]
        known = [field.name for field in fields(cls)]
        if not all(name in known and column for name, _, column in pairs):
            raise ConfigError(
                f"{text!r} does not name columns; write for example order_id=id,user_id=customer. "
                f"The names are {', '.join(known)}"
            )
        return cls(**{name: column for name, _, column in pairs})


def read(place: str, table: str, columns: OrderColumns, paid_status: str) -> tuple[dict[str, int], pa.Table]:
    """The orders at a place: ``postgresql://...``, a Parquet file or directory, or a SQLite file, which is opened
    read-only. Raises ConfigError, which says what is wrong."""
    if place.startswith(("postgresql://", "postgres://")):
        return _from_postgresql(place, table, columns, paid_status)
    place = directory_of(place, "--orders-db")
    if not os.path.exists(place):
        raise ConfigError(
            f"there is no order database {place}; give a SQLite file, postgresql://..., or a Parquet file or directory"
        )
    if os.path.isdir(place) or place.endswith(".parquet"):
        return _from_parquet(place, columns, paid_status)
    return _from_sqlite(place, table, columns, paid_status)


def orders_in(frame: DataFrame, columns: OrderColumns, paid_status: str = "paid") -> tuple[dict[str, int], pa.Table]:
    """The orders in a data frame of Spark, from whatever source."""
    from pyspark.sql import functions as f

    chosen = frame.select(
        f.col(columns.order_id).cast("string").alias("order_id"),
        f.col(columns.user_id).cast("string").alias("paid_user"),
        f.col(columns.amount_cents).cast("bigint").alias("paid_cents"),
        f.col(columns.status).cast("string").alias("status"),
    )
    counted = {str(row["status"]): row["count"] for row in chosen.groupBy("status").count().collect()}
    paid = chosen.where(f.lower("status") == paid_status.lower()).drop("status")
    return dict(sorted(counted.items())), paid.toArrow()


def _quoted(name: str) -> str:
    """An SQL name that means exactly this, whatever characters and words are in it."""
    return '"' + name.replace('"', '""') + '"'


def _table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    import pyarrow as pa

    names, types = ("order_id", "paid_user", "paid_cents"), (pa.string(), pa.string(), pa.int64())
    values = list(zip(*rows, strict=True)) or [(), (), ()]
    arrays = [pa.array(column, kind) for column, kind in zip(values, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=list(names))


def _statements(table: str, columns: OrderColumns, mark: str) -> tuple[str, str]:
    order, user, cents, status = map(_quoted, astuple(columns))  # and so is the table: see who calls this
    counting = f"SELECT {status}, count(*) FROM {table} GROUP BY {status} ORDER BY {status}"  # nosec B608 # names are quoted
    chosen = f"CAST({order} AS text), CAST({user} AS text), CAST({cents} AS bigint)"
    return counting, f"SELECT {chosen} FROM {table} WHERE lower(CAST({status} AS text)) = lower({mark})"  # nosec B608 # names are quoted


def _needs(place: str, table: str, columns: OrderColumns, error: Exception) -> ConfigError:
    reason = str(error).strip()
    return ConfigError(
        f"{place} cannot be read: {reason}; it needs a table {table} with the columns {', '.join(astuple(columns))}"
    )


def _from_sqlite(path: str, table: str, columns: OrderColumns, paid_status: str) -> tuple[dict[str, int], pa.Table]:
    counting, reading = _statements(_checked(table), columns, "?")
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as database:
            # SQLite takes a quoted name of no column for a text, so the columns are looked up.
            known = {row[1].lower() for row in database.execute(f"PRAGMA table_info({_quoted(table)})")}
            for column in astuple(columns):
                if known and column.lower() not in known:
                    raise sqlite3.OperationalError(f"no such column: {column}")
            statuses = dict(database.execute(counting).fetchall())
            paid = database.execute(reading, (paid_status,)).fetchall()
    except sqlite3.Error as error:
        raise _needs(path, table, columns, error) from error
    return {str(status): count for status, count in statuses.items()}, _table(paid)


def _checked(table: str) -> str:
    if not table:
        raise ConfigError("--orders-table is empty; name the table of the orders")
    return _quoted(table)


def _from_postgresql(dsn: str, table: str, columns: OrderColumns, paid_status: str) -> tuple[dict[str, int], pa.Table]:
    try:
        import psycopg
    except ImportError as error:
        raise ConfigError(
            f"orders in PostgreSQL need the package psycopg; run: pip install 'gantrymq[postgresql]' ({error})"
        ) from error
    _checked(table)
    counting, reading = _statements(".".join(map(_quoted, table.split("."))), columns, "%s")
    place = dsn.rpartition("@")[2].partition("?")[0]  # without the password
    try:
        with psycopg.connect(dsn, autocommit=True, options="-c default_transaction_read_only=on") as connection:
            statuses: dict[Any, int] = dict(connection.execute(counting.encode()).fetchall())
            paid = connection.execute(reading.encode(), (paid_status,)).fetchall()
    except psycopg.Error as error:
        raise _needs(place, table, columns, error) from error
    return {str(status): count for status, count in statuses.items()}, _table(paid)


def _from_parquet(path: str, columns: OrderColumns, paid_status: str) -> tuple[dict[str, int], pa.Table]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    try:
        content = ds.dataset(path, format="parquet", partitioning="hive")
        for column in astuple(columns):
            if column not in content.schema.names:
                names = ", ".join(content.schema.names)
                raise ConfigError(f"{path} cannot be read: there is no column {column}; it has {names}")
        read = content.to_table(columns=list(astuple(columns)))
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path} cannot be read as Parquet: {error}") from error
    kinds = (pa.string(), pa.string(), pa.int64(), pa.string())
    cast = [read[name].cast(kind) for name, kind in zip(astuple(columns), kinds, strict=True)]
    orders = pa.Table.from_arrays(cast, names=["order_id", "paid_user", "paid_cents", "status"])
    counted = orders.group_by("status").aggregate([([], "count_all")]).sort_by("status").to_pylist()
    paid = orders.filter(pc.equal(pc.utf8_lower(orders["status"]), paid_status.lower())).drop_columns(["status"])
    return {str(row["status"]): row["count_all"] for row in counted}, paid
