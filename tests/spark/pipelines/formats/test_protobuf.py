"""Bodies in Protobuf become columns, and every other body gets the reason why it is none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.decoding import decoder_of
from gantrymq.spark.pipelines.job import Body
from tests.spark.pipelines.formats.decoded import events, reasons

PAID_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def descriptor_set() -> bytes:
    """What protoc writes for a message with one field of each sort."""
    from google.protobuf import descriptor_pb2, timestamp_pb2

    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(
        name="paid.proto", package="shop", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    kind = file.enum_type.add(name="ColumnType")
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
            ("kind", "TYPE_ENUM", "LABEL_OPTIONAL", ".shop.ColumnType"),
            ("paid_at", "TYPE_MESSAGE", "LABEL_OPTIONAL", ".google.protobuf.Timestamp"),
            ("items", "TYPE_MESSAGE", "LABEL_REPEATED", ".shop.Item"),
            ("labels", "TYPE_MESSAGE", "LABEL_REPEATED", ".shop.Paid.LabelsEntry"),
            ("first", "TYPE_MESSAGE", "LABEL_OPTIONAL", ".shop.Item"),
        ],
        1,
    ):  # fmt: skip
        paid.field.add(name=name, number=number, type=sort, label=label, type_name=of)
    return files.SerializeToString()


def paid(**values: Any) -> Any:
    """A message of the type shop.Paid."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Paid"))(**values)


def bodies_at(where: Path, **keys: Any) -> Body:
    (where / "paid.desc").write_bytes(descriptor_set())
    return Body(format="protobuf", schema_file=f"{where}/paid.desc", message="shop.Paid", **keys)


def test_protobuf(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    body = bodies_at(tmp_path)
    message = paid(id="o-1", cents=5, big=1 << 63, raw=b"\0", kind=1, items=[{"sku": "a"}], labels={"x": "y"})
    message.paid_at.FromDatetime(PAID_AT)
    assert events(body, message.SerializeToString(), b"\xff\xff") == [
        {
            "id": "o-1", "cents": 5, "big": 1 << 63, "raw": b"\0", "kind": "CASH", "paid_at": PAID_AT,
            "items": [{"sku": "a"}], "labels": [("x", "y")], "first": None,
        },
        None,
    ]  # fmt: skip
    assert decoder_of(body).spark_type.startswith("struct<`id`:string,`cents`:bigint,`big`:decimal(20,0),`raw`:binary,")
    with pytest.raises(ConfigError, match=r"there is no message shop.Other; the file has .*shop.Item, shop.Paid"):
        decoder_of(Body(format="protobuf", schema_file=body.schema_file, message="shop.Other"))
    (tmp_path / "paid.desc").write_bytes(b"text")
    with pytest.raises(ConfigError, match="is not a descriptor set"):
        decoder_of(body)


@pytest.mark.parametrize(
    ("seconds", "nanos", "said"),
    [
        (1 << 60, 0, "is 1152921504606846976 s and 0 ns after 1970, which is not within the years 1 to 9999"),
        (-62_135_596_801, 0, "which is not within the years"),
        (0, 1_000_000_000, "which is not within the years"),
        (0, -1000, "which is not within the years"),
        (0, 1, "has 1 ns, and a timestamp of Spark has microseconds; body.allow ="),
    ],
)
def test_timestamps_out_of_range(seconds: int, nanos: int, said: str, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    message = paid(id="a")
    message.paid_at.seconds, message.paid_at.nanos = seconds, nanos
    (reason,) = reasons(bodies_at(tmp_path), message.SerializeToString())
    assert reason.startswith("the column paid_at ") and said in reason
    if nanos == 1:
        assert events(bodies_at(tmp_path, allow=("rounding",)), message.SerializeToString())[0]["id"] == "a"
