"""Keys and orders of every type that a job may name, and columns with every name, in every target."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gantrymq.spark.pipelines.changes.applying import Applying
from gantrymq.spark.pipelines.changes.rows import CHANGE
from gantrymq.spark.pipelines.job import Changes, PostgresqlTarget
from gantrymq.spark.pipelines.targets.databases import Databases
from gantrymq.spark.pipelines.targets.port import Columns
from gantrymq.spark.pipelines.targets.writers import open_change_writer
from tests.spark.pipelines.targets.test_changes import applied, delta, iceberg
from tests.sql.databases import Place, database_server, postgresql

__all__ = ["database_server", "postgresql"]

ODD = 'Odd "Name'
"""Of a column: no SQL takes it as it is."""
DAY, NOON = datetime.date(2026, 1, 31), datetime.datetime(2026, 1, 31, 12, 0, 0, 5)
LATER = datetime.timedelta(days=1)
TYPES: dict[str, tuple[pa.DataType, str, Any, Any]] = {
    "text": (pa.string(), "text", "Ä'", "ä'"),
    "small": (pa.int16(), "smallint", -5, 3),
    "long": (pa.int64(), "bigint", 1 << 40, 1 << 62),
    "decimal": (pa.decimal128(38, 10), "numeric(38,10)", Decimal("9.5"), Decimal("12345678901234567890.0000000001")),
    "day": (pa.date32(), "date", DAY, DAY + LATER),
    "moment": (pa.timestamp("us", "UTC"), "timestamptz", NOON.replace(tzinfo=datetime.UTC),
               NOON.replace(tzinfo=datetime.UTC) + LATER),
    "local": (pa.timestamp("us"), "timestamp", NOON, NOON + LATER),
}  # fmt: skip
"""For each type: Arrow's, PostgreSQL's, a value and a greater one."""


def in_postgresql(where: Path, request: Any) -> Any:
    place: Place = request.getfixturevalue("postgresql")
    quoted = ODD.replace('"', '""')
    columns = [f'"k {name}" {sql}, "{name}" {sql}' for name, (_, sql, _, _) in TYPES.items()]
    key = ", ".join(f'"k {name}"' for name in TYPES)
    place.execute(f'CREATE TABLE notes ({", ".join(columns)}, "k true" boolean, "{quoted}" text, '
                  f'PRIMARY KEY ({key}, "k true"))')  # fmt: skip
    return PostgresqlTarget(dsn=place.dsn, table="notes", key=(*(f"k {name}" for name in TYPES), "k true"))


def batch(*lines: tuple[int, int, str | None]) -> pa.Table:
    """Which of the two keys, which of the two orders, and the text; without it the row goes."""
    columns: dict[str, pa.Array] = {}
    for name, (kind, _, *values) in TYPES.items():
        columns[f"k {name}"] = pa.array([values[key] for key, _, _ in lines], kind)
        columns[name] = pa.array([values[order] for _, order, _ in lines], kind)
    columns["k true"] = pa.array([bool(key) for key, _, _ in lines], pa.bool_())
    columns[ODD] = pa.array([text for _, _, text in lines], pa.string())
    change = pa.array(["delete" if text is None else "upsert" for _, _, text in lines], pa.string())
    return pa.table({**columns, CHANGE: change})


@pytest.mark.parametrize("kind", [delta, iceberg, in_postgresql])
@pytest.mark.parametrize("order_by", [("text",), ("decimal",), ("day",), ("moment", "long")])
def test_every_type(kind: Any, order_by: tuple[str, ...], tmp_path: Path, request: Any) -> None:
    target = kind(tmp_path, request)
    schema = batch().schema.remove(len(batch().schema) - 1)
    changes = Changes(key=(*(f"k {name}" for name in TYPES), "k true"), order_by=order_by, operation="op")
    applying = Applying.of(changes, lambda: 1_000_000, "")
    writer = open_change_writer(target, "t", Columns(tuple(schema.names), "", schema), applying, Databases())
    applied(writer, "q", 0, batch((0, 0, "first"), (1, 1, "first")))
    applied(writer, "q", 1, batch((0, 1, "second"), (1, 0, "late")))
    assert texts(target) == ["first", "second"]
    applied(writer, "q", 2, batch((0, 0, None), (1, 1, None)))
    assert texts(target) == ["second"]
    applied(writer, "q", 3, batch((0, 1, None), (1, 1, "late")))
    assert texts(target) == []
    writer.close()


def texts(target: Any) -> list[Any]:
    """The texts of all rows."""
    if isinstance(target, PostgresqlTarget):
        import psycopg

        with psycopg.connect(target.dsn) as connection:
            return sorted(row[-1] for row in connection.execute("SELECT * FROM notes").fetchall())
    if hasattr(target, "path"):
        from deltalake import DeltaTable

        return sorted(DeltaTable(target.path).to_pyarrow_table()[ODD].to_pylist())
    from pyiceberg.catalog import load_catalog

    return sorted(load_catalog("gantry", **target.catalog).load_table(target.table).scan().to_arrow()[ODD].to_pylist())
