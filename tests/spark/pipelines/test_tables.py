"""A batch is in a table whole and once, wherever its writer dies."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gantrymq.errors import StoreFormatUnknown
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.tables import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(str(tmp_path / "points"), "order_id string", OsDisk())


def rows(*orders: str) -> pa.Table:
    return pa.table({"order_id": pa.array(orders, pa.string())})


def orders_of(table: Table) -> list[str]:
    files = [f"{table.path}/{file}" for entry in table.entries() for file in entry.files]
    return [order for file in files for order in pq.read_table(file)["order_id"].to_pylist()]


def test_a_batch_given_again_is_not_written_again(table: Table) -> None:
    first = table.add("q", 0, rows("a", "b"))
    assert table.add("q", 0, rows("c")) == first
    assert orders_of(table) == ["a", "b"]


class Killed(BaseException):
    """The process ends here."""


class DyingDisk(OsDisk):
    """A disk under a process that dies at the n-th rename."""

    def __init__(self, renames: int) -> None:
        super().__init__()
        self._left = renames

    def rename(self, source: str, target: str) -> None:
        if not self._left:
            raise Killed
        self._left -= 1
        super().rename(source, target)


@pytest.mark.parametrize("renames", [0, 1])
def test_a_writer_that_dies_leaves_nothing_to_be_seen(table: Table, renames: int) -> None:
    with pytest.raises(Killed):
        Table(table.path, table.schema, DyingDisk(renames)).add("q", 0, rows("a"))
    assert orders_of(table) == []
    table.add("q", 0, rows("a"))
    assert orders_of(table) == ["a"]


def test_batches_of_two_queries_do_not_meet(table: Table) -> None:
    table.add("q", 0, rows("a"))
    table.add("p", 0, rows("b"))
    assert sorted(orders_of(table)) == ["a", "b"]


def test_an_empty_batch_is_recorded_without_files(table: Table) -> None:
    entry = table.add("q", 4, rows())
    assert (entry.rows, entry.files) == (0, ())
    assert table.entry("q", 4) == entry


@pytest.mark.parametrize("text", [b"", b"{}", b'{"version": 2, "query": "q", "batch": 0, "rows": 0, "files": []}'])
def test_a_manifest_of_another_kind_is_refused(table: Table, text: bytes) -> None:
    entry = table.add("q", 0, rows("a"))
    path = Path(table.path) / "_manifest" / f"{entry.batch:010d}-q.json"
    path.write_bytes(text)
    with pytest.raises(StoreFormatUnknown, match="_manifest"):
        table.entries()
