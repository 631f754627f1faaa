"""Bodies of a writer's schema become events of the job's own, by Avro's rules, and exactly."""

from __future__ import annotations

import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.avro import AvroFormat

fastavro = pytest.importorskip("fastavro")


def record(*fields: Any, name: str = "Paid") -> Any:
    return {"type": "record", "name": name, "fields": list(fields)}


def x(kind: Any, **rest: Any) -> Any:
    return {"name": "x", "type": kind, **rest}


def form_of(writer: Any, reader: Any) -> AvroFormat:
    return AvroFormat.reading(json.dumps(reader).encode(), json.dumps(writer).encode())


def read(writer: Any, reader: Any, value: Any) -> tuple[Any, str | None]:
    """The event and the reason, the same in both ways of reading."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(writer), value)
    form = form_of(writer, reader)
    bodies = pa.array([stream.getvalue()])
    found, alone = form.decode(bodies), form.decode_each(bodies)
    assert (found.events, dict(found.reasons)) == (alone.events, dict(alone.reasons))
    return found.events[0].as_py(), found.reasons.get(0)


NO_NULL = "it can be null, and the schema of the job does not allow that"
OTHER = "the same number would mean another value"
MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("writer", "reader", "value", "found"),
    [
        (x("int"), x("long"), 5, 5),
        (x("int"), x("double"), 5, 5.0),
        (x("long"), x("float"), 1 << 40, float(1 << 40)),
        (x("float"), x("double"), 0.5, 0.5),
        (x("string"), x("bytes"), "ä", "ä".encode()),
        (x("bytes"), x("string"), "ä".encode(), "ä"),
        (x("string"), x(["null", "string"]), "a", "a"),
        (x(["null", "string"]), x(["string", "null"]), None, None),
        (x("int"), x(["string", "long", "boolean"]), 5, {"member0": None, "member1": 5, "member2": None}),
        (x({"type": "array", "items": "int"}), x({"type": "array", "items": "long"}), [1, 2], [1, 2]),
        (x({"type": "map", "values": "int"}), x({"type": "map", "values": "double"}), {"a": 1}, [("a", 1.0)]),
        (x(ENUM), x({**ENUM, "symbols": ["A"], "default": "A"}), "B", "A"),
        ({"name": "old", "type": "int"}, x("int", aliases=["old"]), 5, 5),
        (x("bytes"), x(DECIMAL), b"\x01\x00", Decimal("2.56")),
    ],
)  # fmt: skip
def test_what_the_rules_allow(writer: Any, reader: Any, value: Any, found: Any) -> None:
    assert read(record(writer), record(reader), {writer["name"]: value}) == ({"x": found}, None)
    assert form_of(record(writer), record(reader)).problems == ()


@pytest.mark.parametrize(
    ("kind", "default", "found"),
    [
        ("int", 5, 5), (["null", "string"], None, None), (["string", "null"], "a", "a"), ("bytes", "\u00ff", b"\xff"),
        (DECIMAL, "\u0001\u0000", Decimal("2.56")), ({"type": "array", "items": "int"}, [1], [1]),
        ({"type": "map", "values": "int"}, {"a": 1}, [("a", 1)]), (ENUM, "B", "B"),
        (record({"name": "y", "type": "int", "default": 3}, name="Inner"), {}, {"y": 3}),
        (["string", "int"], 5, {"member0": None, "member1": 5}),
    ],
)  # fmt: skip
def test_a_field_that_the_writer_does_not_have(kind: Any, default: Any, found: Any) -> None:
    writer = record(
        {"name": "skipped", "type": ["null", {"type": "map", "values": "string"}]}, {"name": "b", "type": "int"}
    )
    reader = record(x(kind, default=default), {"name": "b", "type": "int"})
    assert read(writer, reader, {"skipped": {"a": "b"}, "b": 7}) == ({"x": found, "b": 7}, None)


@pytest.mark.parametrize(
    ("writer", "reader", "value", "problem"),
    [
        (x("string"), x("int"), "a", "the field x: string cannot be read as int"),
        (x("long"), x("int"), 5, "the field x: long cannot be read as int"),
        ({"name": "y", "type": "int"}, x("int"), 5,
         "the field x: the writer does not have it, and the schema of the job has no default"),
        (x(["null", "int"]), x("int"), None, f"the field x: {NO_NULL}"),
        (x(DECIMAL), x({**DECIMAL, "scale": 3}), Decimal("1.25"),
         f"the field x: decimal(5,2) (bytes) cannot be read as decimal(5,3) (bytes): {OTHER}"),
        (x(MILLIS), x(MICROS), 5,
         f"the field x: timestamp-millis (long) cannot be read as timestamp-micros (long): {OTHER}"),
        (x(record({"name": "y", "type": "string"}, name="In")), x(record({"name": "y", "type": "int"}, name="In")),
         {"y": "a"}, "the field x.y: string cannot be read as int"),
        (x({"type": "fixed", "name": "F", "size": 2}), x({"type": "fixed", "name": "F", "size": 3}), b"ab",
         "the field x: F cannot be read as F"),
    ],
)  # fmt: skip
def test_what_the_rules_forbid_names_the_field(writer: Any, reader: Any, value: Any, problem: str) -> None:
    event, reason = read(record(writer), record(reader), {writer["name"]: value})
    assert (event, reason) == (None, f"the schema of the body cannot be read: {problem}")
    assert form_of(record(writer), record(reader)).problems == (problem,)


def test_another_record() -> None:
    assert form_of(record(x("int"), name="Refund"), record(x("int"))).problems == ("Refund cannot be read as Paid",)


def test_a_promotion_that_would_round_is_refused() -> None:
    """The rules of Avro allow it. A pipeline changes no value."""
    event, reason = read(record(x("long")), record(x("double")), {"x": (1 << 53) + 1})
    assert event is None
    assert reason == "the body has the number 9007199254740993, which double of the job's schema cannot have exactly"
    assert read(record(x("long")), record(x("double")), {"x": 1 << 60}) == ({"x": float(1 << 60)}, None)


def test_a_symbol_that_the_job_does_not_know() -> None:
    writer, reader = record(x(ENUM)), record(x({**ENUM, "symbols": ["A"]}))
    assert form_of(writer, reader).problems == ("the field x: the enum E does not have B",)
    assert read(writer, reader, {"x": "A"}) == ({"x": "A"}, None)
    assert read(writer, reader, {"x": "B"})[1] == "the body has the symbol 'B', which the enum E does not have"


@pytest.mark.parametrize("namespace", ["", None, "other", "a.b"])
def test_namespaces_of_types_within_types(namespace: str | None) -> None:
    """Two records in a union, which fastavro names in full."""
    one = {**record({"name": "a", "type": "int"}, name="One"), "namespace": namespace}
    two = {**record({"name": "b", "type": "int"}, name="Two")}
    schema = {**record(x(["null", one, two])), "namespace": "shop"}
    name = f"{namespace}.One" if namespace else "One"
    found = {"x": {"member0": {"a": 5}, "member1": None}}
    assert read(schema, schema, {"x": (name, {"a": 5})}) == (found, None)
    assert read(schema, schema, {"x": ("shop.Two", {"b": 5})})[1] is None


NODE = record({"name": "next", "type": ["null", "Node"]}, name="Node")


def test_records_within_each_other_without_an_end() -> None:
    """The reader in C would end the process of Spark, and each restart would meet the same body."""
    form = form_of(record(x("int"), {"name": "skipped", "type": NODE}), record(x("int")))
    bodies = pa.array([b"\2" + b"\2" * depth + b"\0" for depth in (5, 200_000)])
    found = form.decode(bodies)
    assert found.events.to_pylist() == [{"x": 1}, None]
    assert dict(found.reasons) == {1: "the body has records within each other, too many to read"}


@pytest.mark.parametrize("items", ["null", record(name="Empty"), {"type": "fixed", "name": "F", "size": 0}])
def test_a_list_that_could_be_endless_in_a_few_bytes(items: Any) -> None:
    writer = record(x("int"), {"name": "skipped", "type": ["null", {"type": "array", "items": items}]})
    with pytest.raises(ConfigError, match="a list of values without bytes"):
        form_of(writer, record(x("int")))


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", 1 << 31),
        (MILLIS, 1 << 60),
        ({"type": "int", "logicalType": "date"}, 1 << 30),
        (["null", "int"], 1 << 40),
    ],
)
def test_defaults_that_no_column_can_have(kind: Any, default: Any) -> None:
    """They are found before the first body: all of them would be dead letters."""
    with pytest.raises(ConfigError, match="the default of x "):
        form_of(record({"name": "b", "type": "int"}), record(x(kind, default=default)))
