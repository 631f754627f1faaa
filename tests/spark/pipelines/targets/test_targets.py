"""Every kind of target has a batch whole and once, and recognises it after a crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gantrymq.errors import ConfigError, StoreLocked
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import DeltaTarget, IcebergTarget, MysqlTarget, ParquetTarget, PostgresqlTarget
from gantrymq.spark.pipelines.targets.databases import Databases
from gantrymq.spark.pipelines.targets.parquet.tables import NO_VALUE
from gantrymq.spark.pipelines.targets.port import Columns, Writer
from gantrymq.spark.pipelines.targets.rows_by_key import without
from gantrymq.spark.pipelines.targets.writers import open_writer
from tests.spark.pipelines.staged import added

SCHEMA = "id string, amount bigint"


def rows(*ids: str, amount: int = 1) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.string()), "amount": pa.array([amount] * len(ids), pa.int64())})


def opened(target: Any) -> Writer:
    return open_writer(target, "t", Columns(("id", "amount"), SCHEMA, rows().schema), {}, OsDisk(), Databases())


def known(writer: Writer, query: str, *ids: str) -> list[str]:
    found = writer.known(query, rows(*ids).select(["id"]))
    return [] if found is None else sorted(found["id"].to_pylist())


def parquet(where: Path) -> Any:
    return ParquetTarget(path=f"{where}/table")


def delta(where: Path) -> Any:
    pytest.importorskip("deltalake")
    return DeltaTarget(path=f"{where}/table")


def iceberg(where: Path) -> Any:
    pytest.importorskip("pyiceberg")
    catalog = {"type": "sql", "uri": f"sqlite:///{where}/catalog.db", "warehouse": f"file://{where}/lake"}
    return IcebergTarget(table="shop.orders", catalog=catalog)


@pytest.mark.parametrize("kind", [parquet, delta, iceberg])
def test_a_table_has_each_batch_once(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    target = kind(tmp_path)
    writer = opened(target)
    assert (writer.rows(), writer.others("q")) == (0, {})
    assert added(writer, "q", 0, rows("a", "b")) == 2
    assert added(writer, "q", 1, rows()) == 0
    writer.close()
    writer = opened(target)  # the next run, to which Spark gives the last batch again
    assert writer.has("q", 0) and not writer.has("q", 2) and not writer.has("p", 0)
    assert added(writer, "q", 0, rows("a", "b")) == 0
    assert added(writer, "q", 2, rows("c")) == 1
    assert writer.rows() == 3
    assert (writer.others("q"), writer.others("p")) == ({}, {"q": 2})
    assert known(writer, "p", "a", "x", "c") == ["a", "c"]
    assert known(writer, "p", "d", "x") == []
    writer.finish()
    assert writer.rows() == 3
    writer.close()


@pytest.mark.parametrize("kind", [parquet, delta, iceberg])
def test_a_task_that_ran_twice_is_in_the_table_once(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    """And what a task wrote where the driver does not see it is missed before the table names it."""
    writer = opened(kind(tmp_path))
    stage = writer.stage("q", 0)
    lost = list(stage.write(rows("a").to_batches(), 0))
    staged = [*stage.write(rows("a").to_batches(), 0), *stage.write(rows("b").to_batches(), 1)]
    assert len(lost) == 1 and writer.accepts("q", 0, staged)
    assert writer.commit("q", 0, staged) == writer.rows() == 2
    staged = list(writer.stage("q", 1).write(rows("c").to_batches(), 0))
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(ConfigError, match="is not there for the driver; give"):
        writer.commit("q", 1, staged)
    assert not writer.has("q", 1)
    writer.close()


def test_a_parquet_table_has_one_writer(tmp_path: Path) -> None:
    writer = opened(parquet(tmp_path))
    with pytest.raises(StoreLocked):
        opened(parquet(tmp_path))
    writer.close()


def test_a_partitioned_table(tmp_path: Path) -> None:
    """Other programs read the directories as columns."""
    import pyarrow.dataset as ds

    target = ParquetTarget(path=f"{tmp_path}/table", partition_by=("amount",))
    writer = opened(target)
    batch = pa.concat_tables(
        [rows("a", "b"), rows("c", amount=2), pa.table({"id": ["d"], "amount": pa.nulls(1, pa.int64())})]
    )
    assert added(writer, "q", 0, batch) == 4
    assert added(writer, "q", 0, batch) == 0
    assert added(writer, "q", 1, rows("e")) == 1
    assert writer.rows() == 5
    writer.finish()
    writer.close()
    table = ds.dataset(target.path, format="parquet", partitioning="hive").to_table()
    assert sorted(zip(table["id"].to_pylist(), table["amount"].to_pylist(), strict=True)) == [
        ("a", 1), ("b", 1), ("c", 2), ("d", None), ("e", 1),
    ]  # fmt: skip


def test_rows_that_another_query_has_put_into_their_directory_are_known_by_the_key(tmp_path: Path) -> None:
    target = ParquetTarget(path=f"{tmp_path}/table", partition_by=("amount",), key=("amount", "id"))
    writer = opened(target)
    assert added(writer, "q", 0, pa.concat_tables([rows("a", "b"), rows("a", amount=2)])) == 3
    assert (writer.others("p"), writer.others("q")) == ({"q": 0}, {})
    keys = pa.concat_tables([rows("c", "b", "a"), rows("b", amount=2), rows("d", amount=3)])
    found = writer.known("p", keys.select(["amount", "id"]))
    assert found is not None
    assert without(keys, found, ["amount", "id"]).to_pylist() == [
        {"id": "c", "amount": 1}, {"id": "b", "amount": 2}, {"id": "d", "amount": 3},
    ]  # fmt: skip
    assert writer.known("q", keys.select(["amount", "id"])) is None, "one query is not compared with itself"
    writer.close()


def test_a_key_of_events_may_be_a_column_of_the_directories(tmp_path: Path) -> None:
    writer = opened(ParquetTarget(path=f"{tmp_path}/table", partition_by=("amount",)))
    none = pa.table({"id": ["d"], "amount": pa.nulls(1, pa.int64())})
    assert added(writer, "q", 0, pa.concat_tables([rows("a", "b"), rows("c", amount=2), none])) == 4
    for columns in (["amount"], ["amount", "id"]):
        others = writer.known("p", rows("a", "e").select(columns))
        assert others is not None and others.column_names == columns
        assert sorted(without(rows("a", "e"), others, columns)["id"].to_pylist()) == ["e"] * ("id" in columns)
        assert without(rows("a", amount=3), others, columns).num_rows == 1
    writer.close()


def test_a_partition_needs_its_column(tmp_path: Path) -> None:
    writer = opened(ParquetTarget(path=f"{tmp_path}/table", partition_by=("day",)))
    with pytest.raises(ConfigError, match="has no column day; it has id, amount"):
        added(writer, "q", 0, rows("a"))
    writer.close()


def test_values_that_cannot_name_a_directory(tmp_path: Path) -> None:
    target = ParquetTarget(path=f"{tmp_path}/table", partition_by=("id",))
    writer = opened(target)
    batch = rows("a", "x" * 252, "x" * 253, "é" * 50, NO_VALUE, "a")
    assert writer.refusals("q", 0, batch) == {
        2: "the column id has a value for which the name of a directory would have 256 bytes",
        3: "the column id has a value for which the name of a directory would have 303 bytes",
        4: "the column id is __HIVE_DEFAULT_PARTITION__, which readers of directories take for null",
    }
    (staged,) = writer.stage("q", 0).write(batch.to_batches(), 0)
    assert staged.refused is not None and not writer.accepts("q", 0, [staged])
    assert added(writer, "q", 0, batch.take([0, 1, 5])) == 3
    writer.close()


@pytest.mark.parametrize("library", ["deltalake", "pyiceberg", "psycopg", "pymysql"])
def test_a_library_that_is_missing_is_named(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    target = {
        "deltalake": DeltaTarget(path=f"{tmp_path}/table"),
        "pyiceberg": IcebergTarget(table="a.b", catalog={}),
        "psycopg": PostgresqlTarget(dsn="", table="t", key=("id",)),
        "pymysql": MysqlTarget(url="mysql://me@localhost/d", table="t", key=("id",)),
    }[library]
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigError, match=rf"needs the package {library}; run: pip install 'gantrymq\["):
        opened(target)
