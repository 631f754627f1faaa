"""A batch is in a table whole and once, wherever its writer dies, and no reader sees unfinished work."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from gantrymq.errors import StoreFormatUnknown, StoreLocked
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.tables import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(str(tmp_path / "points"), "order_id string", OsDisk())


def rows(*orders: str) -> pa.Table:
    return pa.table({"order_id": pa.array(orders, pa.string())})


def orders_of(table: Table) -> list[str]:
    return [order for file in table.files() for order in pq.read_table(file)["order_id"].to_pylist()]


def visible(table: Table) -> list[str]:
    """What a program sees that knows nothing of our names and reads the directory."""
    if not Path(table.path).exists():
        return []
    return sorted(ds.dataset(table.path, rows("x").schema, format="parquet").to_table()["order_id"].to_pylist())


def data_files(table: Table) -> list[Path]:
    return [path for path in Path(table.path).rglob("*") if path.is_file() and path.suffix != ".json"]


def test_a_batch_given_again_is_not_written_again(table: Table) -> None:
    assert table.add("q", 0, rows("a", "b")) == 2
    assert table.add("q", 0, rows("c")) == 0
    assert orders_of(table) == ["a", "b"]


def test_a_batch_is_one_file_and_an_empty_batch_is_none(table: Table) -> None:
    table.add("q", 0, rows("a"))
    table.add("q", 1, rows())
    assert len(data_files(table)) == 1
    assert (table.has("q", 0), table.has("q", 1), table.has("p", 0)) == (True, False, False)


class Killed(BaseException):
    """The process ends here."""


class DyingDisk(OsDisk):
    """A disk under a process that dies at the n-th change of a directory, before it or after it."""

    def __init__(self, changes: int) -> None:
        super().__init__()
        self._left = changes

    def _count(self) -> None:
        if not self._left:
            raise Killed
        self._left -= 1

    def rename(self, source: str, target: str) -> None:
        self._count()
        super().rename(source, target)
        self._count()

    def remove(self, path: str) -> None:
        self._count()
        super().remove(path)


def test_a_writer_that_dies_leaves_nothing_to_be_seen(table: Table) -> None:
    table.create()
    with pytest.raises(Killed):
        Table(table.path, table.schema, DyingDisk(0)).add("q", 0, rows("a"))
    assert orders_of(table) == []
    table.add("q", 0, rows("a"))
    assert orders_of(table) == ["a"]


def test_other_readers_see_only_what_is_published_and_each_row_once(table: Table) -> None:
    """The directory is read as by another program after every batch, and after every death in the middle of a merge."""
    small = Table(table.path, table.schema, OsDisk(), part_rows=100)
    seen: list[str] = []
    for batch in range(70):
        small.add("q", batch, rows(f"{batch:03}a", f"{batch:03}b"))
        now = visible(table)
        assert now[: len(seen)] == seen, "rows that were visible are gone"
        assert len(now) == len(set(now)) and len(now) % 100 == 0
        seen = now
    assert len(seen) == 100
    small.finish()
    assert visible(table) == sorted(orders_of(table)) == [f"{batch:03}{one}" for batch in range(70) for one in "ab"]


def test_small_files_are_merged(table: Table) -> None:
    for batch in range(100):
        table.add("q", batch, rows(f"{batch:03}"))
        assert len(table.files()) <= 32 + 3
    assert len(data_files(table)) <= 2 * 32 + 3, "files that were replaced are deleted"
    assert orders_of(table) == [f"{batch:03}" for batch in range(100)]
    table.finish()
    table.finish()
    assert len(table.files()) == 1 and table.rows() == 100
    assert visible(table) == [f"{batch:03}" for batch in range(100)]


def test_a_writer_that_dies_at_any_change_of_a_directory(tmp_path: Path) -> None:
    """Every run dies somewhere, and the next one gives its last batch again, as Spark does."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    table = Table(str(tmp_path / "points"), "order_id string", OsDisk())
    table.create()
    batch = 0
    while batch < 200:
        dying = Table(table.path, table.schema, DyingDisk(chance.randrange(200)), part_rows=chance.randrange(20, 200))
        try:
            while batch < 200:
                dying.add("q", batch, rows(f"{batch:03}"))
                batch += 1
            dying.finish()
        except Killed:
            pass
        orders = orders_of(table)
        assert orders[:batch] == [f"{number:03}" for number in range(batch)] and len(orders) <= batch + 1
        assert len(visible(table)) == len(set(visible(table)))
        assert set(visible(table)) <= set(orders)


def test_batches_of_two_queries_do_not_meet(table: Table) -> None:
    table.add("q", 0, rows("a"))
    table.add("p", 0, rows("b"))
    assert sorted(orders_of(table)) == ["a", "b"]
    table.finish()
    assert visible(table) == ["a", "b"]


def test_only_one_program_writes_a_table(table: Table) -> None:
    lock = table.lock()
    with pytest.raises(StoreLocked):
        Table(table.path, table.schema, OsDisk()).lock()
    lock.release()


def test_a_table_with_other_columns_is_refused(table: Table) -> None:
    table.add("q", 0, rows("a"))
    with pytest.raises(StoreFormatUnknown, match="has the columns 'order_id string', and not 'order_id int'"):
        Table(table.path, "order_id int", OsDisk()).create()


@pytest.mark.parametrize("text", [b"", b"{}", b'{"version": 3, "schema": ""}'])
def test_a_table_of_another_kind_is_refused(table: Table, text: bytes) -> None:
    table.add("q", 0, rows("a"))
    (Path(table.path) / "_table.json").write_bytes(text)
    with pytest.raises(StoreFormatUnknown, match=r"_table\.json"):
        table.add("q", 1, rows("b"))
