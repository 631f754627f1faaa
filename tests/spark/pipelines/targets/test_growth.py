"""Which tables can grow to the columns of a job, and how the others are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gantrymq.spark.pipelines.targets.growth import Growth, TableDiffers, Widening, as_wide, grown, growth, same

EVERY, ICEBERG = Widening(), Widening(decimal_scale=False, date_to_timestamp=False)
NTZ, UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")


def decimal(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale)


@pytest.mark.parametrize(
    ("old", "new", "every", "iceberg"),
    [
        (pa.int8(), pa.int16(), True, True),
        (pa.int32(), pa.int64(), True, True),
        (pa.float32(), pa.float64(), True, True),
        (decimal(5, 2), decimal(9, 2), True, True),
        (decimal(5, 2), decimal(9, 4), True, False),
        (pa.date32(), NTZ, True, False),
        (pa.struct([("a", pa.int32())]), pa.struct([("b", pa.string()), ("a", pa.int64())]), True, True),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), True, True),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), True, True),
        (pa.list_(pa.date32()), pa.list_(NTZ), True, False),
        # These are no wider types.
        (decimal(5, 2), decimal(6, 4), False, False),
        (decimal(9, 2), decimal(5, 2), False, False),
        (pa.int64(), pa.int32(), False, False),
        (pa.int32(), pa.float64(), False, False),
        (pa.int32(), decimal(12, 0), False, False),
        (pa.int32(), pa.string(), False, False),
        (pa.date32(), UTC, False, False),
        (NTZ, UTC, False, False),
        (pa.struct([("a", pa.int32()), ("b", pa.int32())]), pa.struct([("a", pa.int64())]), False, False),
        (pa.map_(pa.int32(), pa.int32()), pa.map_(pa.int64(), pa.int32()), False, False),
    ],
)
def test_wider_types(old: pa.DataType, new: pa.DataType, every: bool, iceberg: bool) -> None:
    assert (EVERY.allows(old, new), ICEBERG.allows(old, new)) == (every, iceberg)
    assert not same(old, new)
    if every:
        values = pa.table({"c": pa.nulls(1, old)})
        assert as_wide(values, pa.schema([("c", new)])).to_pylist() == [{"c": None}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.string(), pa.large_string()),
        (UTC, pa.timestamp("us", "+00:00")),
        (pa.list_(pa.string()), pa.large_list(pa.large_string())),
        (pa.struct([("a", pa.string())]), pa.struct([("a", pa.large_string())])),
    ],
)
def test_types_that_differ_in_arrow_only(one: pa.DataType, other: pa.DataType) -> None:
    assert same(one, other)
    assert not growth(pa.schema([("c", one)]), pa.schema([("c", other)]), EVERY, "t")


def test_what_a_table_lacks() -> None:
    table = pa.schema([("id", pa.string()), ("n", pa.int32()), ("old", pa.string())])
    wanted = pa.schema([pa.field("m", decimal(5, 2), nullable=False), ("n", pa.int64()), ("id", pa.string())])
    lacks = growth(table, wanted, EVERY, "t")
    assert lacks == Growth((pa.field("m", decimal(5, 2)),), {"n": (pa.int32(), pa.int64())})
    assert str(lacks) == "the column m decimal(5,2) and the type bigint of n, which is int"
    assert grown(table, lacks).names == ["id", "n", "old", "m"]
    assert not growth(grown(table, lacks), wanted, EVERY, "t"), "a table that has grown lacks nothing"
    rows = as_wide(pa.table({"n": [1], "id": ["a"]}), grown(table, lacks))
    assert rows.to_pylist() == [{"id": "a", "n": 1, "old": None, "m": None}]


def test_what_is_refused_is_named_with_what_to_do() -> None:
    table = pa.schema([("n", pa.int64()), ("s", pa.string()), ("d", pa.date32())])
    with pytest.raises(TableDiffers) as raised:
        growth(table, pa.schema([("n", pa.int32()), ("s", pa.int32()), ("d", NTZ)]), ICEBERG, "targets.t")
    narrower, other, not_here = str(raised.value).splitlines()
    assert narrower == (
        "targets.t: the column n is bigint in the table and int in the job, which is narrower; a table never becomes "
        "narrower. Write bigint in body.schema, or CAST(n AS bigint) in the query"
    )
    assert other == (
        "targets.t: the column s is string in the table and int in the job. Write CAST(s AS string) in the query, or "
        "give the column another name, or write to a new table"
    )
    assert "is date in the table and timestamp_ntz in the job; this kind of table cannot be changed so" in not_here
