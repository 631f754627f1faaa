"""A batch is in a table whole and once, wherever its writer dies, and no reader sees unfinished work."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from gantrymq.errors import ConfigError, StoreFormatUnknown, StoreLocked
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.targets.parquet.tables import Table
from tests.spark.pipelines.staged import added_to, files_for


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(str(tmp_path / "points"), "order_id string", OsDisk())


def rows(*orders: str) -> pa.Table:
    return pa.table({"order_id": pa.array(orders, pa.string())})


def orders_of(table: Table) -> list[str]:
    return sorted(order for file in table.files() for order in pq.read_table(file)["order_id"].to_pylist())


def visible(table: Table) -> list[str]:
    """What a program sees that knows nothing of our names and reads the directory."""
    return sorted(ds.dataset(table.path, rows("x").schema, format="parquet").to_table()["order_id"].to_pylist())


def data_files(table: Table) -> list[Path]:
    return list(Path(table.path).rglob("*.parquet"))


def test_a_batch_given_again_is_not_written_again(table: Table) -> None:
    assert added_to(table, "q", 0, rows("a", "b"), rows("c")) == 3
    assert added_to(table, "q", 0, rows("c")) == 0
    assert orders_of(table) == visible(table) == ["a", "b", "c"]
    assert table.rows() == 3


def test_a_task_writes_a_file_and_an_empty_batch_is_none(table: Table) -> None:
    added_to(table, "q", 0, rows("a"), rows(), rows("b"))
    added_to(table, "q", 1, rows())
    assert len(data_files(table)) == 2
    assert (table.has("q", 0), table.has("q", 1), table.has("p", 0)) == (True, False, False)


def test_what_is_not_committed_is_seen_by_nobody_and_deleted(table: Table) -> None:
    table.create()
    lost = files_for(table, "q", 0, rows("a"), rows("b"))
    assert len(data_files(table)) == 2 and visible(table) == orders_of(table) == []
    assert added_to(table, "q", 0, rows("a", "b")) == 2
    assert len(data_files(table)) == 1 and visible(table) == ["a", "b"]
    with pytest.raises(ConfigError, match="is not there for the driver; give a path that all machines share"):
        table.commit("q", 1, lost)


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


def test_a_writer_that_dies_at_any_change_of_a_directory(tmp_path: Path) -> None:
    """Every run dies somewhere, and the next one gives its last batch again, as Spark does. The batches are of several
    files in several directories."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    schema = pa.schema([("n", pa.int64()), ("day", pa.int64())])
    where, batch = str(tmp_path / "points"), 0
    while batch < 40:
        dying = Table(where, "n bigint, day bigint", DyingDisk(chance.randrange(60)), ("day",))
        lock = None
        try:
            lock = dying.lock()
            while batch < 40:
                tasks = [pa.table({"n": [batch * 4 + at, batch * 4 + at + 1], "day": [0, 1]}, schema) for at in (0, 2)]
                added_to(dying, "q", batch, *tasks)
                batch += 1
        except Killed:
            pass
        finally:
            if lock is not None:
                lock.release()
        whole = Table(where, "n bigint, day bigint", OsDisk(), ("day",))
        if Path(where).exists():
            found = ds.dataset(where, format="parquet", partitioning="hive").to_table()
            numbers = sorted(found["n"].to_pylist()) if len(found) else []
            assert numbers == sorted(set(numbers)) and set(range(4 * batch)) <= set(numbers)
            assert whole.rows() == len(numbers) <= 4 * batch + 4


def test_a_batch_whose_files_did_not_get_their_places_gets_them_later(table: Table) -> None:
    """An error behind the mark: the batch is committed, and the next one must not take its files for useless."""
    for batch, finish in ((0, table.publish), (1, lambda: table.clear("q"))):
        table.create()
        files = files_for(table, "q", batch, rows(f"{batch}"))
        failing = Table(table.path, table.schema, DyingDisk(2))  # behind the rename of the mark
        with pytest.raises(Killed):
            failing.commit("q", batch, files)
        assert table.has("q", batch) and f"{batch}" not in visible(table)
        finish()
        assert f"{batch}" in visible(table)


def test_batches_of_two_queries_do_not_meet(table: Table) -> None:
    added_to(table, "q", 0, rows("a"))
    added_to(table, "p", 0, rows("b"))
    assert visible(table) == orders_of(table) == ["a", "b"]
    assert {query: mark.batch for query, mark in table.marks().items()} == {"p": 0, "q": 0}


def test_only_one_program_writes_a_table(table: Table) -> None:
    lock = table.lock()
    with pytest.raises(StoreLocked):
        Table(table.path, table.schema, OsDisk()).lock()
    lock.release()


def test_a_table_with_other_columns_is_refused(table: Table) -> None:
    table.create()
    with pytest.raises(StoreFormatUnknown, match="has the columns 'order_id string', and not 'order_id int'"):
        Table(table.path, "order_id int", OsDisk()).create()


@pytest.mark.parametrize("text", [b"", b"{}", b'{"version": 4, "schema": ""}'])
def test_a_table_of_another_kind_is_refused(table: Table, text: bytes) -> None:
    table.create()
    (Path(table.path) / "_table.json").write_bytes(text)
    with pytest.raises(StoreFormatUnknown, match=r"_table\.json"):
        table.lock()


def test_a_table_of_the_version_before_is_taken_over(table: Table) -> None:
    """Its published files stay as they are. Rows that a killed run has hidden are not passed over in silence."""
    recent = Path(table.path) / "_recent"
    recent.mkdir(parents=True)
    (Path(table.path) / "_table.json").write_text('{"version": 2, "schema": "order_id string"}')
    pq.write_table(rows("a", "b"), Path(table.path) / "0000000000-0000000007-2-q.parquet")
    pq.write_table(rows("c"), recent / "0000000008-0000000008-1-q.parquet")
    with pytest.raises(StoreFormatUnknown, match="Run the job to its end once with that version"):
        table.lock()
    (recent / "0000000008-0000000008-1-q.parquet").unlink()
    table.lock().release()
    assert table.has("q", 7) and not table.has("q", 8)
    assert added_to(table, "q", 8, rows("c")) == 1
    assert visible(table) == ["a", "b", "c"]
