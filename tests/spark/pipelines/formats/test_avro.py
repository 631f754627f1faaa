"""Bodies in Avro become columns, and every other body gets the reason why it is none."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.decoding import decoder_of
from gantrymq.spark.pipelines.job import Body
from tests.spark.pipelines.formats.decoded import events, reasons

PAID_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
AVRO = {
    "type": "record", "name": "Paid", "namespace": "shop", "fields": [
        {"name": "id", "type": "string"},
        {"name": "cents", "type": "long"},
        {"name": "paid_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "ColumnType", "symbols": ["CARD", "CASH"]}},
        {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": [
            {"name": "sku", "type": "string"}, {"name": "count", "type": "int"}]}}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}  # fmt: skip
REF = "3f6c2f14-6c8c-4f0e-9d6e-0a6a5d1f2b3c"


def written(schema: Any, value: Any, where: Path) -> tuple[Body, bytes]:
    """A job's bodies of this schema, and one of them."""
    fastavro = pytest.importorskip("fastavro")
    (where / "a.avsc").write_text(json.dumps(schema))
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return Body(format="avro", schema_file=f"{where}/a.avsc"), stream.getvalue()


def one_field(kind: Any) -> Any:
    return {"type": "record", "name": "A", "fields": [{"name": "x", "type": kind}]}


def test_avro(tmp_path: Path) -> None:
    value = {
        "id": "o-1", "cents": 5, "paid_at": PAID_AT, "note": None, "kind": "CASH",
        "items": [{"sku": "a", "count": 2}], "labels": {"x": "y"}, "ref": REF,
    }  # fmt: skip
    body, good = written(AVRO, value, tmp_path)
    bodies = [good, good[:-3], good + b"x", b"", None, good.replace(b"o-1", b"o\xff1")]
    assert events(body, *bodies) == [{**value, "labels": [("x", "y")]}, None, None, None, None, None]
    assert reasons(body, *bodies) == [
        None,
        "the body is not Avro of the schema: it ends too early",
        "the body must be one Avro record, and 1 bytes follow it",
        "the body is not Avro of the schema: it ends too early",
        "the message has no body",
        reasons(body, bodies[-1])[0],
    ]
    assert "a text is not UTF-8 ('utf-8' codec can't decode byte 0xff" in reasons(body, bodies[-1])[0]
    assert decoder_of(body).spark_type == (
        "struct<`id`:string,`cents`:bigint,`paid_at`:timestamp,`note`:string,`kind`:string,"
        "`items`:array<struct<`sku`:string,`count`:int>>,`labels`:map<string,string>,`ref`:string>"
    )


def test_a_producer_that_went_from_int_to_long(tmp_path: Path) -> None:
    """The bytes of a small number are the same; a large one does not fit the column, and names it."""
    bodies = [written(one_field("long"), {"x": number}, tmp_path)[1] for number in (5, 3_000_000_000)]
    body = written(one_field("int"), {"x": 5}, tmp_path)[0]
    assert events(body, *bodies) == [{"x": 5}, None]
    assert reasons(body, *bodies)[1] == "the column x must fit int, and is 3000000000"


@pytest.mark.parametrize(
    ("kind", "value", "found", "spark"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, Decimal("-123.45"),
         Decimal("-123.45"), "decimal(5,2)"),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5}, Decimal(7), Decimal(7),
         "decimal(5,0)"),
        ({"type": "int", "logicalType": "time-millis"}, time(1), 3_600_000, "int"),
        ({"type": "long", "logicalType": "time-micros"}, time(1), 3_600_000_000, "bigint"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, 1000, datetime(1970, 1, 1, 0, 0, 1),
         "timestamp_ntz"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, 1, datetime(1970, 1, 1, 0, 0, 0, 1),
         "timestamp_ntz"),
        ({"type": "int", "logicalType": "date"}, date(2026, 1, 31), date(2026, 1, 31), "date"),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, bytes.fromhex(REF.replace("-", "")), REF,
         "string"),
        ({"type": "long", "logicalType": "of-somebody"}, 5, 5, "bigint"),
        (["null", "int", "long"], 3_000_000_000, 3_000_000_000, "bigint"),
        (["int", "string"], "a", {"member0": None, "member1": "a"}, "struct<`member0`:int,`member1`:string>"),
    ],
)  # fmt: skip
def test_logical_types_and_unions(kind: Any, value: Any, found: Any, spark: str, tmp_path: Path) -> None:
    body, written_body = written(one_field(kind), {"x": value}, tmp_path)
    assert events(body, written_body) == [{"x": found}]
    assert decoder_of(body).spark_type == f"struct<`x`:{spark}>"


@pytest.mark.parametrize(
    ("kind", "raw", "value", "reason"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, "bytes", b"\x7f\xff",
         "the body has a decimal with more than the 3 digits of its schema"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "long", 1 << 60,
         "the body has the timestamp 1152921504606846976, which is not within the years 1 to 9999"),
        ({"type": "int", "logicalType": "date"}, "int", 1 << 30,
         "the body has the date 1073741824, which is not within the years 1 to 9999"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "int", 5,
         "the body is not Avro of the schema: IndexError: list index out of range"),
    ],
)  # fmt: skip
def test_values_without_a_meaning(kind: Any, raw: str, value: Any, reason: str, tmp_path: Path) -> None:
    bytes_of_value = written(one_field(raw), {"x": value}, tmp_path)[1]
    (tmp_path / "a.avsc").write_text(json.dumps(one_field(kind)))
    assert reasons(Body(format="avro", schema_file=f"{tmp_path}/a.avsc"), bytes_of_value) == [reason]


def test_records_that_are_used_twice_and_unions_of_records(tmp_path: Path) -> None:
    day = {"type": "record", "name": "Day", "fields": [{"name": "on", "type": {"type": "int", "logicalType": "date"}}]}
    schema = {"type": "record", "name": "Paid", "namespace": "shop", "fields": [
        {"name": "first", "type": day}, {"name": "last", "type": ["null", "Day"]},
        {"name": "by", "type": ["null", {"type": "record", "name": "Card", "fields": [{"name": "n", "type": "string"}]},
                                {"type": "record", "name": "Cash", "fields": [{"name": "at", "type": "shop.Day"}]}]},
    ]}  # fmt: skip
    on = date(2026, 1, 31)
    body, first = written(schema, {"first": {"on": on}, "last": {"on": on}, "by": ("shop.Card", {"n": "1"})}, tmp_path)
    second = written(schema, {"first": {"on": on}, "last": None, "by": ("shop.Cash", {"at": {"on": on}})}, tmp_path)[1]
    third = written(schema, {"first": {"on": on}, "last": None, "by": None}, tmp_path)[1]
    assert events(body, first, second, third) == [
        {"first": {"on": on}, "last": {"on": on}, "by": {"member0": {"n": "1"}, "member1": None}},
        {"first": {"on": on}, "last": None, "by": {"member0": None, "member1": {"at": {"on": on}}}},
        {"first": {"on": on}, "last": None, "by": None},
    ]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "is not an Avro schema"),
        ('"string"', "must be a record"),
        (json.dumps(one_field(["null"])), "cannot have the type null"),
        (json.dumps(one_field(["int", "long", "string"])), "a union cannot have int and long"),
        (json.dumps(one_field({"type": "bytes", "logicalType": "decimal", "precision": 39})), "a decimal has 39"),
        (json.dumps(one_field(["null", "A"])), "the record A contains itself"),
        (json.dumps(one_field({"type": "record", "name": "B", "fields": []})), "the record B has no fields"),
    ],
)
def test_avro_that_cannot_be_columns(tmp_path: Path, schema: str, message: str) -> None:
    pytest.importorskip("fastavro")
    (tmp_path / "paid.avsc").write_text(schema)
    with pytest.raises(ConfigError, match=message):
        decoder_of(Body(format="avro", schema_file=f"{tmp_path}/paid.avsc"))
