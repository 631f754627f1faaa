"""Deletes are remembered as texts, which compare as the orders do."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.spark.pipelines.changes.positions import keys_of, newest, not_behind, positions_of
from gantrymq.spark.pipelines.changes.rows import CHANGE, DELETE, LEFT_OUT

KINDS = (pa.int64(), pa.string(), pa.decimal128(38, 10), pa.date32(), pa.timestamp("us", "UTC"))
ORDERS = st.tuples(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.text(st.characters(codec="utf-8"), max_size=3),
    st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**20), max_value=10**20),
    st.dates(),
    st.datetimes(timezones=st.just(datetime.UTC)),
)
NAMES = [f"c{number}" for number in range(len(KINDS))]


def table(*orders: Any, change: str = DELETE) -> pa.Table:
    columns = [pa.array(values, kind) for values, kind in zip(zip(*orders, strict=True), KINDS, strict=True)]
    both = {name: column for name, column in zip(NAMES, columns, strict=True)}
    return pa.table({"id": [1] * len(orders), **both, CHANGE: [change] * len(orders)})


@given(ORDERS, ORDERS)
def test_an_event_that_is_not_newer_than_the_delete_of_its_key_is_left_out(one: Any, other: Any) -> None:
    deleted = table(other)
    known = newest(zip(keys_of(deleted, ["id"]), positions_of(deleted, NAMES, "q"), strict=True), KINDS, "q")
    # Texts are compared by their characters, in UTF-8 as in Python.
    assert len(not_behind(table(one), ["id"], NAMES, known)) == (one > other)
    assert len(not_behind(table(other), ["id"], NAMES, known)) == 0


@given(st.lists(ORDERS, min_size=1, max_size=5))
def test_the_last_delete_of_a_key_counts(orders: Any) -> None:
    deleted = table(*orders)
    pairs = list(zip(keys_of(deleted, ["id"]), positions_of(deleted, NAMES, "q"), strict=True))
    last = table(max(orders))
    assert newest(pairs, KINDS, "q") == newest(
        zip(keys_of(last, ["id"]), positions_of(last, NAMES, "q"), strict=True), KINDS, "q"
    )


def test_what_an_earlier_query_left_out_may_come_back() -> None:
    row = table((1, "", Decimal(0), datetime.date.min, datetime.datetime.min.replace(tzinfo=datetime.UTC)))
    gone = row.set_column(row.column_names.index(CHANGE), CHANGE, pa.array([LEFT_OUT]))
    for query, kept in (("q", 0), ("corrected", 1)):
        known = newest([(keys_of(gone, ["id"])[0], positions_of(gone, NAMES, "q")[0])], KINDS, query)
        assert len(not_behind(row, ["id"], NAMES, known)) == kept


def test_a_key_is_the_same_when_its_column_is_wider() -> None:
    days = pa.array([datetime.date(2026, 1, 31)], pa.date32())
    narrow = pa.table(
        {"a": pa.array([7], pa.int32()), "b": pa.array([Decimal("1.50")], pa.decimal128(5, 2)), "c": days}
    )
    wide = pa.table({
        "a": pa.array([7], pa.int64()),
        "b": pa.array([Decimal("1.5000")], pa.decimal128(38, 4)),
        "c": days.cast(pa.timestamp("us")),
    })  # fmt: skip
    assert keys_of(narrow, list("abc")) == keys_of(wide, list("abc")) == ['[7,"1.5",1769817600000000]']
