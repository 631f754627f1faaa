"""What a batch does to the rows of one target."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.changes.rows import CHANGE, changed_rows, gone_of, upserts_of
from gantrymq.spark.pipelines.job import Changes

CHANGES = Changes(key=("id",), order_by=("version",), operation="op")


def keys(*lines: tuple[str, int, bool]) -> pa.Table:
    ids, versions, deleted = zip(*lines, strict=True)
    return pa.table(
        {"id": ids, "version": versions, "is_delete": deleted, "gantry_place": [f"at {one}" for one in ids]}
    )


def projected(*lines: tuple[Any, ...]) -> pa.Table:
    ids, versions, notes = zip(*lines, strict=True)
    return pa.table({"note": notes, "version": versions, "id": pa.array(ids, pa.string())})


def test_a_key_without_a_row_goes() -> None:
    batch = keys(("a", 3, False), ("b", 4, True), ("c", 5, False))
    changed = changed_rows(projected(("c", 5, "x")), batch, CHANGES, "t")
    assert changed.rows.to_pylist() == [
        {"note": "x", "version": 5, "id": "c", CHANGE: "upsert"},
        {"note": None, "version": 3, "id": "a", CHANGE: "left out"},
        {"note": None, "version": 4, "id": "b", CHANGE: "delete"},
    ]
    assert changed.places == ["at c", "at a", "at b"]
    assert upserts_of(changed.rows).to_pylist() == [{"note": "x", "version": 5, "id": "c"}]
    assert gone_of(changed.rows)["id"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", 3, "x"), ("a", 3, "y")], "targets.t.sql: the query makes several rows of one event"),
        ([("A", 3, "x")], "targets.t.sql: the query changes id, version; in a job with"),
        ([("a", 4, "x")], "targets.t.sql: the query changes id, version; in a job with"),
        ([(None, 3, "x")], "targets.t.sql: the query changes id, version; in a job with"),
    ],
)
def test_rows_that_are_not_those_of_the_events(rows: list[tuple[Any, ...]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        changed_rows(projected(*rows), keys(("a", 3, False)), CHANGES, "t")
