"""Bodies in JSON become columns of exactly their types, and every other body gets the reason why it is none."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.decoding import EVENT, REASON, Decoder
from gantrymq.spark.pipelines.formats.json import JsonFormat
from gantrymq.spark.pipelines.job import Allowed

TYPES: dict[str, Any] = {
    "id": "string", "n": "integer", "b": "long", "tiny": "byte", "f": "float", "d": "double", "price": "decimal(12,2)",
    "at": "timestamp", "local": "timestamp_ntz", "day": "date", "ok": "boolean", "raw": "binary",
    "tags": {"type": "array", "elementType": "string"}, "m": {"type": "map", "keyType": "string", "valueType": "long"},
    "s": {"type": "struct", "fields": [{"name": "p", "type": "decimal(2,1)", "nullable": True}]},
}  # fmt: skip


def schema(types: dict[str, Any], required: str = "") -> bytes:
    """As Spark writes it."""
    fields = [{"name": name, "type": kind, "nullable": name != required} for name, kind in types.items()]
    return json.dumps({"type": "struct", "fields": fields}).encode()


def decoded(body: bytes | str | None, *allow: Allowed, columns: bytes = schema(TYPES)) -> Any:
    """The columns that are not null, or the reason."""
    form = JsonFormat.of(columns, frozenset(allow))
    data = body.encode() if isinstance(body, str) else body
    batch = pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], names=["body"])
    (out,) = Decoder("json", columns, "", frozenset(allow), form.kind).add_event([batch])
    (event,), (reason,) = out.column(EVENT).to_pylist(), out.column(REASON).to_pylist()
    assert (event is None) == (reason is not None)
    return reason if event is None else {name: value for name, value in event.items() if value is not None}


def test_every_type() -> None:
    body = {
        "id": "😀\0", "n": -(1 << 31), "b": (1 << 63) - 1, "tiny": -128, "f": 1.5, "d": 2, "price": 19.99,
        "at": "2026-01-31T12:00:00.000001+02:00", "local": "2026-01-31 12:00", "day": "2026-01-31", "ok": True,
        "raw": "AAE=", "tags": ["x", None], "m": {"k": 1}, "s": {"p": 1.5}, "of another version": [{}],
    }  # fmt: skip
    assert decoded(json.dumps(body)) == {
        "id": "😀\0", "n": -(1 << 31), "b": (1 << 63) - 1, "tiny": -128, "f": 1.5, "d": 2.0, "price": Decimal("19.99"),
        "at": datetime(2026, 1, 31, 10, 0, 0, 1, UTC), "local": datetime(2026, 1, 31, 12), "day": date(2026, 1, 31),
        "ok": True, "raw": b"\0\1", "tags": ["x", None], "m": [("k", 1)], "s": {"p": Decimal("1.5")},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("{}", {}),
        ('{"id": null}', {}),
        ('{"price": 19.990}', {"price": Decimal("19.99")}),
        ('{"price": "19.99"}', {"price": Decimal("19.99")}),
        ('{"price": 1e2}', {"price": Decimal(100)}),
        ('{"at": "2026-01-31T12:00:00"}', {"at": datetime(2026, 1, 31, 12, tzinfo=UTC)}),
        ('{"at": "2026-01-31T12:00:00.123456000Z"}', {"at": datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)}),
        ('{"z": %s, "\\u0069d": "a"}' % ("1" * 5000), {"id": "a"}),
        (None, "the message has no body"),
        ("", "the body is empty"),
        (" ", "the body is empty"),
        ("null", "the body must be an object, and is null"),
        ('[{"id": "a"}]', "the body must be an object, and is a list"),
        ('{"id": "a"}\n{"id": "b"}', "the body must be one JSON object, and something follows it at byte 12"),
        ('{"id": "a"}xyz', "the body must be one JSON object, and something follows it at byte 11"),
        ("{'id': 'a'}", "the body is not JSON: a text begins with a single quote at byte 1; JSON has double quotes"),
        (b'{"id": "\xff"}', "the body is not UTF-8: byte 8 is 0xff"),
        (b'{"z": "\xff"}', "the body is not UTF-8: byte 7 is 0xff"),
        ('{"id": "a\0"}', "the body is not JSON: byte 9 is NUL"),
        ('{"id": "a"}\0', "the body is not JSON: byte 11 is NUL"),
        ('{"id": "\\ud800"}', "the body is not JSON: it ends too early, or has half of a surrogate pair"),
        ('{"id": "a"', "the body is not JSON: it ends too early, or has half of a surrogate pair"),
        ('{"d": NaN}', "the body is not JSON: invalid character near byte 6"),
        ('{"z": %s}' % ("[" * 100_000), "the body has objects or lists within each other, too many to read"),
        ('{"id": 5}', "the column id must be a text, and is a whole number"),
        ('{"id": true}', "the column id must be a text, and is true or false"),
        ('{"id": {}}', "the column id must be a text, and is an object"),
        ('{"n": 1.0}', "the column n must be a whole number, and is a number"),
        ('{"n": "1"}', "the column n must be a whole number, and is a text"),
        ('{"n": 2147483648}', "the column n is out of range: more than 2147483647"),
        ('{"tiny": -129}', "the column tiny is out of range: less than -128"),
        ('{"b": 9223372036854775808}', "the column b is out of range: more than 9223372036854775807"),
        ('{"f": 1e39}', "the column f is out of range: more than 3.4028234663852886e+38"),
        ('{"d": 1e400}', "the column d is not valid: number out of range"),
        ('{"price": 19.999}', "the column price is not valid: 19.999 has more digits behind the point than 2"),
        ('{"price": 10000000000}', "the column price is not valid: 10000000000 has more digits than the column"),
        ('{"price": 1e999999999}', "the column price is not valid: 1E+999999999 has more digits than the column"),
        ('{"price": "1_0"}', "the column price is not valid: it must be a number, or a text with one"),
        ('{"price": true}', "the column price is not valid: it must be a number, or a text with one"),
        ('{"s": {"p": 10}}', "the column s.p is not valid: 10 has more digits than the column"),
        ('{"at": 5}', "the column at is not valid: it must be a time as text, such as 2026-01-31T12:00:00Z"),
        ('{"at": "2026-01-31T12:00:00.0000001Z"}',
         "the column at is not valid: it has more than 6 digits behind the point of the seconds"),
        ('{"at": "0001-01-01T00:00:00+02:00"}', "the column at is not valid: it is not within the years 1 to 9999"),
        ('{"at": "2026-13-31T12:00:00Z"}', "the column at is not valid: month must be in 1..12"),
        ('{"local": "2026-01-31T12:00:00Z"}',
         "the column local is not valid: it must be a time without a zone, such as 2026-01-31T12:00:00"),
        ('{"day": "2026-02-30"}', "the column day is not valid: invalid RFC3339 encoded date"),
        ('{"raw": "%"}', "the column raw is not valid: invalid base64 encoded string"),
        ('{"tags": [1]}', "the column tags[0] must be a text, and is a whole number"),
        ('{"m": {"k": "v"}}', "the column m[...] must be a whole number, and is a text"),
        ('{"id": "a", "id": "b"}', "the body has two values for the name id"),
        ('{"id": "a", "\\u0069d": "b"}', "the body has two values for the name id"),
        ('{"m": {"a": 1, "a": 2}}', "the body has two values for the name a"),
    ],
)  # fmt: skip
def test_what_is_an_event(body: Any, found: Any) -> None:
    assert decoded(body) == found


def test_two_values_are_found_where_no_column_has_objects_in_it() -> None:
    """There a quick look decides which bodies are read a second time."""
    flat = schema({"id": "string", "n": "long"})
    assert decoded('{"id": "a", "id" : "b"}', columns=flat) == "the body has two values for the name id"
    assert decoded('{"i\\u0064": "a", "id": "b"}', columns=flat) == "the body has two values for the name id"
    assert decoded('{"id": "\\"id\\":", "z": {"id": 1}}', columns=flat) == {"id": '"id":'}


def test_a_column_that_must_be_there() -> None:
    needs_id = schema({"id": "string", "n": "long"}, required="id")
    assert decoded('{"n": 1}', columns=needs_id) == "the column id is missing"
    assert decoded('{"id": null}', columns=needs_id) == "the column id must be a text, and is null"
    assert decoded('{"id": ""}', columns=needs_id) == {"id": ""}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('{"id": 5}', {"id": "5"}),
        ('{"id": {"a": 1.10}}', {"id": '{"a": 1.10}'}),
        ('{"id": null}', {}),
        ('{"id": "\\u00e4"}', {"id": "ä"}),
        ('{"tags": [1, "a", null]}', {"tags": ["1", "a", None]}),
        ('{"price": 19.995}', {"price": Decimal("20.00")}),
        ('{"price": 1e999999999}', "the column price is not valid: 1E+999999999 has more digits than the column"),
        ('{"at": "2026-01-31T12:00:00.0000019Z"}', {"at": datetime(2026, 1, 31, 12, 0, 0, 1, UTC)}),
        (b'{"id": "\xff"}', {"id": "\ufffd"}),
    ],
)
def test_what_a_job_can_allow(body: Any, found: Any) -> None:
    assert decoded(body, "any_as_text", "rounding", "replaced_bytes") == found


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("variant", "the column x has the type variant; a body in JSON can have string, bigint"),
        ({"type": "map", "keyType": "long", "valueType": "long"}, "the column x has the type map"),
        ({"type": "struct", "fields": []}, "the column x has the type struct"),
    ],
)
def test_types_that_json_cannot_have(kind: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        JsonFormat.of(schema({"x": kind}), frozenset())
