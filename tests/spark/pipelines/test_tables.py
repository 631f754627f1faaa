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


def put(orders: list[str], name: str = "part-0.parquet"):  # type: ignore[no-untyped-def]
    def write(directory: str) -> None:
        Path(directory).mkdir(parents=True)
        pq.write_table(pa.table({"order_id": orders}), f"{directory}/{name}")

    return write


def orders_of(table: Table) -> list[str]:
    files = [f"{table.path}/{file}" for entry in table.entries() for file in entry.files]
    return [order for file in files for order in pq.read_table(file)["order_id"].to_pylist()]


def test_a_batch_given_again_is_not_written_again(table: Table) -> None:
    first = table.add("q", 0, 2, put(["a", "b"]))
    again = table.add("q", 0, 2, lambda directory: pytest.fail("written twice"))
    assert first == again
    assert orders_of(table) == ["a", "b"]


def test_a_writer_that_dies_leaves_nothing_to_be_seen(table: Table) -> None:
    class Killed(BaseException):
        pass

    def die_after_writing(directory: str) -> None:
        put(["a"], "part-of-the-dead.parquet")(directory)
        raise Killed

    with pytest.raises(Killed):
        table.add("q", 0, 1, die_after_writing)
    assert orders_of(table) == []
    table.add("q", 0, 1, put(["a"]))
    assert orders_of(table) == ["a"]


def test_batches_of_two_queries_do_not_meet(table: Table) -> None:
    table.add("q", 0, 1, put(["a"]))
    table.add("p", 0, 1, put(["b"]))
    assert sorted(orders_of(table)) == ["a", "b"]


def test_an_empty_batch_is_recorded_without_files(table: Table) -> None:
    entry = table.add("q", 4, 0, lambda directory: pytest.fail("nothing to write"))
    assert (entry.rows, entry.files) == (0, ())
    assert table.entry("q", 4) == entry


@pytest.mark.parametrize("text", [b"", b"{}", b'{"version": 2, "query": "q", "batch": 0, "rows": 0, "files": []}'])
def test_a_manifest_of_another_kind_is_refused(table: Table, text: bytes) -> None:
    entry = table.add("q", 0, 1, put(["a"]))
    path = Path(table.path) / "_manifest" / f"{entry.batch:010d}-q.json"
    path.write_bytes(text)
    with pytest.raises(StoreFormatUnknown, match="_manifest"):
        table.entries()
