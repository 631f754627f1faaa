"""Tables that are there grow when a job has new columns or wider types, and their old rows read null."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import DeltaTarget, IcebergTarget, PostgresqlTarget
from gantrymq.spark.pipelines.targets.databases import Databases
from gantrymq.spark.pipelines.targets.growth import TableDiffers
from gantrymq.spark.pipelines.targets.port import Columns
from gantrymq.spark.pipelines.targets.writers import change_of, open_writer
from tests.sql.databases import Place, database_server, postgresql

__all__ = ["database_server", "postgresql"]

FIRST = pa.table({
    "id": ["a"], "n": pa.array([1], pa.int32()), "f": pa.array([1.5], pa.float32()),
    "m": pa.array([Decimal("1.25")], pa.decimal128(5, 2)), "i": pa.array([7], pa.int16()),
})  # fmt: skip
SECOND = pa.table({
    "note": ["new"], "id": ["b"], "n": pa.array([1 << 40], pa.int64()), "f": pa.array([1e300], pa.float64()),
    "m": pa.array([Decimal("12345678.25")], pa.decimal128(10, 2)), "i": pa.array([70_000], pa.int32()),
    "at": pa.array([datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)], pa.timestamp("us", "UTC")),
})  # fmt: skip


def columns_of(rows: pa.Table) -> Columns:
    return Columns(tuple(rows.column_names), "", rows.schema)


def write(target: Any, rows: pa.Table, batch: int) -> None:
    writer = open_writer(target, "t", columns_of(rows), {}, OsDisk(), Databases())
    staged = list(writer.stage("q", batch).write(rows.to_batches(), 0))
    assert writer.accepts("q", batch, staged)
    assert writer.commit("q", batch, staged) == len(rows)
    assert writer.has("q", batch)
    writer.close()


def delta(where: Path, request: Any) -> Any:
    pytest.importorskip("deltalake")
    return DeltaTarget(path=f"{where}/table")


def iceberg(where: Path, request: Any) -> Any:
    pytest.importorskip("pyiceberg")
    catalog = {"type": "sql", "uri": f"sqlite:///{where}/catalog.db", "warehouse": f"file://{where}/lake"}
    return IcebergTarget(table="shop.orders", catalog=catalog)


def in_postgresql(where: Path, request: Any) -> Any:
    place: Place = request.getfixturevalue("postgresql")
    place.execute("CREATE TABLE orders (id text PRIMARY KEY, n int, f real, m numeric(5,2), i smallint)")
    return PostgresqlTarget(dsn=place.dsn, table="orders", key=("id",), grow=True)


def rows_of(target: Any) -> list[dict[str, Any]]:
    if isinstance(target, DeltaTarget):
        from deltalake import DeltaTable

        found = DeltaTable(target.path).to_pyarrow_table().to_pylist()
    elif isinstance(target, IcebergTarget):
        from pyiceberg.catalog import load_catalog

        found = load_catalog("gantry", **target.catalog).load_table(target.table).scan().to_arrow().to_pylist()
    else:
        import psycopg
        from psycopg.rows import dict_row

        with psycopg.connect(target.dsn, row_factory=dict_row) as connection:
            found = connection.execute("SELECT * FROM orders").fetchall()
    return sorted(found, key=lambda row: str(row["id"]))


@pytest.mark.parametrize("kind", [delta, iceberg, in_postgresql])
def test_a_table_grows(kind: Any, tmp_path: Path, request: Any) -> None:
    target = kind(tmp_path, request)
    write(target, FIRST, 0)
    assert change_of("t", target, columns_of(FIRST)) == ""
    said = change_of("t", target, columns_of(SECOND))
    assert "note" in said and ("bigint" in said)
    write(target, SECOND, 1)
    assert change_of("t", target, columns_of(SECOND)) == "", "a restart changes nothing"
    write(target, SECOND.set_column(1, "id", pa.array(["c"])).drop_columns(["note"]), 2)
    old, new, last = rows_of(target)
    assert old == {**FIRST.to_pylist()[0], "note": None, "at": None}
    assert new == SECOND.to_pylist()[0]
    assert last == {**new, "id": "c", "note": None}, "a column that the job has no more is null in new rows"


@pytest.mark.parametrize("kind", [delta, iceberg])
def test_a_table_does_not_become_narrower(kind: Any, tmp_path: Path, request: Any) -> None:
    target = kind(tmp_path, request)
    write(target, SECOND, 0)
    narrow = columns_of(SECOND.set_column(2, "n", FIRST["n"]))
    with pytest.raises(TableDiffers, match="the column n is bigint in the table and int in the job, which is narrower"):
        change_of("t", target, narrow)
    with pytest.raises(TableDiffers, match="the column n is bigint in the table and int in the job, which is narrower"):
        open_writer(target, "t", narrow, {}, OsDisk(), Databases())


def test_a_delta_table_that_is_partitioned_stays_so_and_has_its_batches(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = f"{tmp_path}/table"
    deltalake.DeltaTable.create(path, schema=FIRST.schema, partition_by=["id"])
    write(DeltaTarget(path=path), FIRST, 3)
    write(DeltaTarget(path=path), SECOND, 4)
    table = deltalake.DeltaTable(path)
    assert table.metadata().partition_columns == ["id"]
    assert table.transaction_version("q") == 4
    assert [row["n"] for row in rows_of(DeltaTarget(path=path))] == [1, 1 << 40]


def test_a_table_in_postgresql_belongs_to_its_owner(tmp_path: Path, postgresql: Place) -> None:
    """Without ``grow`` nothing is altered: what is missing is an error, and types are what the owner has given."""
    target = PostgresqlTarget(dsn=postgresql.dsn, table="orders", key=("id",))
    postgresql.execute("CREATE TABLE orders (id text PRIMARY KEY, n int, f real, m numeric(5,2), i smallint)")
    with pytest.raises(TableDiffers, match=r"no column note. Add it \(ALTER TABLE ... ADD COLUMN note text\); or"):
        write(target, SECOND, 0)
    wide = SECOND.drop_columns(["note", "at"])
    writer = open_writer(target, "t", columns_of(wide), {}, OsDisk(), Databases())
    assert writer.refusals("q", 0, wide) == {0: "the column n is a number that is too large for int4"}
    writer.close()
    grows = PostgresqlTarget(dsn=postgresql.dsn, table="orders", key=("id",), grow=True)
    nested = pa.table({"id": ["a"], "tags": [["x"]]})
    with pytest.raises(TableDiffers, match=r"no type of PostgreSQL is just like array<string>; add the column"):
        write(grows, nested, 0)
    assert "ADD COLUMN" not in change_of("t", grows, columns_of(FIRST))
    assert change_of("t", grows, columns_of(SECOND)).startswith(
        'targets.t: a run begins with ALTER TABLE "orders" ADD COLUMN IF NOT EXISTS "note" text, ALTER COLUMN "n" TYPE'
    )
    postgresql.execute("CREATE VIEW of_orders AS SELECT n FROM orders")
    with pytest.raises(ConfigError, match="cannot alter type of a column used by a view"):
        write(grows, SECOND, 0)


def test_a_table_that_cannot_be_looked_at_is_no_error_of_a_check(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    target = PostgresqlTarget(dsn="postgresql://127.0.0.1:1/x", table="t", key=("id",))
    said = change_of("t", target, columns_of(FIRST))
    assert said.startswith("targets.t: its table cannot be looked at now: PostgreSQL refuses: connection failed")
