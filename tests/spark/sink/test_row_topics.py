"""The topics that rows name get the namespace, whatever the form of the column is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gantrymq.spark.sink.row_topics import in_namespace


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_topics_of_rows(kind: pa.DataType) -> None:
    batch = pa.record_batch({"body": [b"1", b"2", b"3", b"4"], "topic": pa.array(["a", None, "ns%b", "a"], kind)})
    found = in_namespace(batch, 1, "ns")
    assert found.column(1).to_pylist() == ["ns%a", None, "ns%b", "ns%a"]
    assert found.schema == batch.schema
    empty = in_namespace(batch.slice(0, 0), 1, "ns")
    assert empty.num_rows == 0 and empty.schema == batch.schema
