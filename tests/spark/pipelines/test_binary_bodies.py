"""Bodies in Avro and Protobuf become columns, and other bytes become dead letters."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.binary_bodies import decoder_of
from gantrymq.spark.pipelines.job import Body

PAID_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
AVRO = {
    "type": "record", "name": "Paid", "namespace": "shop", "fields": [
        {"name": "id", "type": "string"},
        {"name": "cents", "type": "long"},
        {"name": "paid_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["CARD", "CASH"]}},
        {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": [
            {"name": "sku", "type": "string"}, {"name": "count", "type": "int"}]}}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}  # fmt: skip
REF = "3f6c2f14-6c8c-4f0e-9d6e-0a6a5d1f2b3c"


def events(body: Body, *bodies: bytes | None) -> list[Any]:
    batch = pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], names=["body"])
    (out,) = decoder_of(body).add_event([batch])
    return out.column("event").to_pylist()


def test_avro(tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    (tmp_path / "paid.avsc").write_text(json.dumps(AVRO))
    body = Body(format="avro", schema_file=f"{tmp_path}/paid.avsc")
    value = {
        "id": "o-1", "cents": 5, "paid_at": PAID_AT, "note": None, "kind": "CASH",
        "items": [{"sku": "a", "count": 2}], "labels": {"x": "y"}, "ref": REF,
    }  # fmt: skip
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), value)
    good = stream.getvalue()
    assert events(body, good, good[:-3], good + b"x", b"", None) == [
        {**value, "labels": [("x", "y")]}, None, None, None, None,
    ]  # fmt: skip
    assert decoder_of(body).spark_type == (
        "struct<`id`:string,`cents`:bigint,`paid_at`:timestamp,`note`:string,`kind`:string,"
        "`items`:array<struct<`sku`:string,`count`:int>>,`labels`:map<string,string>,`ref`:string>"
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "is not an Avro schema"),
        ('"string"', "must be a record"),
        ('{"type": "record", "name": "A", "fields": [{"name": "x", "type": ["int", "string"]}]}', "a union must be of"),
        ('{"type": "record", "name": "A", "fields": [{"name":"x","type":{"type":"int","logicalType":"time-millis"}}]}',
         "the logical type time-millis is not supported"),
    ],
)  # fmt: skip
def test_avro_that_cannot_be_columns(tmp_path: Path, schema: str, message: str) -> None:
    pytest.importorskip("fastavro")
    (tmp_path / "paid.avsc").write_text(schema)
    with pytest.raises(ConfigError, match=message):
        decoder_of(Body(format="avro", schema_file=f"{tmp_path}/paid.avsc"))


def descriptor_set() -> bytes:
    """What protoc writes for a message with one field of each sort."""
    from google.protobuf import descriptor_pb2, timestamp_pb2

    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(
        name="paid.proto", package="shop", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("CARD", "CASH")):
        kind.value.add(name=name, number=number)
    item = file.message_type.add(name="Item")
    item.field.add(name="sku", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    paid = file.message_type.add(name="Paid")
    entry = paid.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, type="TYPE_STRING", label="LABEL_OPTIONAL")
    for number, (name, sort, label, of) in enumerate(
        [
            ("id", "TYPE_STRING", "LABEL_OPTIONAL", None), ("cents", "TYPE_INT64", "LABEL_OPTIONAL", None),
            ("big", "TYPE_UINT64", "LABEL_OPTIONAL", None), ("raw", "TYPE_BYTES", "LABEL_OPTIONAL", None),
            ("kind", "TYPE_ENUM", "LABEL_OPTIONAL", ".shop.Kind"),
            ("paid_at", "TYPE_MESSAGE", "LABEL_OPTIONAL", ".google.protobuf.Timestamp"),
            ("items", "TYPE_MESSAGE", "LABEL_REPEATED", ".shop.Item"),
            ("labels", "TYPE_MESSAGE", "LABEL_REPEATED", ".shop.Paid.LabelsEntry"),
            ("first", "TYPE_MESSAGE", "LABEL_OPTIONAL", ".shop.Item"),
        ],
        1,
    ):  # fmt: skip
        paid.field.add(name=name, number=number, type=sort, label=label, type_name=of)
    return files.SerializeToString()


def test_protobuf(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    (tmp_path / "paid.desc").write_bytes(descriptor_set())
    body = Body(format="protobuf", schema_file=f"{tmp_path}/paid.desc", message="shop.Paid")
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Paid"))(
        id="o-1", cents=5, big=1 << 63, raw=b"\0", kind=1, items=[{"sku": "a"}], labels={"x": "y"}
    )
    message.paid_at.FromDatetime(PAID_AT)
    assert events(body, message.SerializeToString(), b"\xff\xff") == [
        {
            "id": "o-1", "cents": 5, "big": -(1 << 63), "raw": b"\0", "kind": "CASH", "paid_at": PAID_AT,
            "items": [{"sku": "a"}], "labels": [("x", "y")], "first": None,
        },
        None,
    ]  # fmt: skip
    assert decoder_of(body).spark_type.startswith("struct<`id`:string,`cents`:bigint,`big`:bigint,`raw`:binary,")
    with pytest.raises(ConfigError, match=r"there is no message shop.Other; the file has .*shop.Item, shop.Paid"):
        decoder_of(Body(format="protobuf", schema_file=body.schema_file, message="shop.Other"))
    (tmp_path / "paid.desc").write_bytes(b"text")
    with pytest.raises(ConfigError, match="is not a descriptor set"):
        decoder_of(body)
