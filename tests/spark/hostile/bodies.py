"""Bodies by chance in each format, with what must become of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from io import BytesIO
from typing import Any

from tests.spark.hostile.strict_json import values_of
from tests.spark.hostile.values import Values, values

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AVRO: dict[str, Any] = {
    "type": "record", "name": "Event", "fields": [
        {"name": "id", "type": ["null", "string"]}, {"name": "n", "type": ["null", "int"]},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        *({"name": name, "type": ["null", "string"]} for name in ("note", "kind", "code")),
        {"name": "ratio", "type": ["null", "double"]},
    ],
}  # fmt: skip


class Fate(Enum):
    """What must become of a message."""

    EVENT = "its values are known, and the targets decide"
    DEAD = "its body is no event"
    EITHER = "nobody but the decoder can say"


@dataclass(frozen=True, slots=True)
class Made:
    """A body, and what must become of it."""

    body: bytes
    fate: Fate
    values: Values | None = None


def json_bodies(chance: random.Random, count: int) -> Iterator[Made]:
    """Some are broken. A second reader of JSON, which is strict in its own way, says what they are."""
    for _ in range(count):
        body = _written(chance, values(chance))
        if chance.random() < 0.3:
            body = chance.choice(_BREAKS)(chance, body) or b" "
        found = values_of(body)
        yield Made(body, Fate.DEAD) if found is None else Made(body, Fate.EVENT, found)


def _written(chance: random.Random, one: Values) -> bytes:
    fields: dict[str, Any] = {
        "id": one.id, "n": one.n, "price": None if one.price is None else _Number(str(one.price)),
        "at": None if one.micros is None else _time(one.micros),
        "note": one.note, "kind": one.kind, "code": one.code, "ratio": one.ratio,
    }  # fmt: skip
    pairs = [pair for pair in fields.items() if pair[1] is not None or chance.random() < 0.5]
    chance.shuffle(pairs)
    if chance.random() < 0.2:
        pairs.append(("of_another_version", {"a": [1, "x"]}))
    ascii_only = chance.random() < 0.5
    colon, comma = chance.choice(((":", ","), (": ", ", "), (" :\n", "\n, ")))
    parts = (f"{json.dumps(name)}{colon}{_value(value, ascii_only)}" for name, value in pairs)
    return f"{{{comma.join(parts)}}}".encode()


class _Number(str):
    """A number as it is written."""


def _value(value: Any, ascii_only: bool) -> str:
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=ascii_only)


def _time(micros: int) -> str:
    return (EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")


Break = Callable[[random.Random, bytes], bytes]


def _with(name: str, text: str) -> Break:
    """The column gets this text as its value."""
    return lambda chance, body: body[:-1] + (b"," if len(body) > 2 else b"") + f'"{name}":{text}}}'.encode()


def _alone(text: str) -> Break:
    return lambda chance, body: text.encode()


def _any_byte(chance: random.Random, body: bytes) -> bytes:
    at = chance.randrange(len(body))
    return body[:at] + bytes([chance.randrange(256)]) + body[at + chance.randrange(2) :]


_BREAKS: tuple[Break, ...] = (
    lambda chance, body: body + body,
    lambda chance, body: body + b"\n" + body,
    lambda chance, body: body + chance.choice((b"xyz", b"\0", b",", b"}", b" ", b"\n")),
    lambda chance, body: body.replace(b'"', b"'"),
    lambda chance, body: body[: chance.randrange(len(body))],
    lambda chance, body: b"\xef\xbb\xbf" + body,
    lambda chance, body: body.decode().encode("utf-16"),
    lambda chance, body: body.decode().encode("latin1", "replace"),
    lambda chance, body: b"[" + body + b"]",
    lambda chance, body: chance.randbytes(chance.randrange(1, 40)),
    _any_byte, _any_byte, _any_byte, _any_byte,
    *(_alone(one) for one in ("null", "5", '"a"', "[]", "{}", "{", "true", "[" * 5000, '{"a":' * 5000)),
    *(_alone(f'{{"id":{one}}}') for one in ("5", "true", "{}", "[]", "1e5", '"\\ud800"', '"a\nb"', '"\\u0000"')),
    *(_alone(f'{{"n":{one},"code":"1"}}') for one in
      ("1.0", "1e2", '"1"', "true", "2147483648", "-2147483649", "01", "-0", "9" * 5000, "NaN")),
    *(_alone(f'{{"price":{one},"code":"1"}}') for one in
      ("19.999", "19.990", '"19.99"', "1e2", "1e-3", "10000000000", "1e999999999", "true", '"1_0"', '"NaN"', '""')),
    *(_alone(f'{{"at":{one},"code":"1"}}') for one in
      ("5", '"2026-01-31"', '"2026-02-30T00:00:00Z"', '"2026-01-31T12:00:00.0000001Z"', '"2026-01-31T12:00"',
       '"2026-01-31 12:00:00+0530"', '"0001-01-01T00:00:00+01:00"', '"2026-01-31T25:00:00Z"')),
    *(_alone(f'{{"ratio":{one},"code":"1"}}') for one in ("1e400", "1", "-1e-400", '"1"', "Infinity", "1.")),
    _with("id", '"again"'), _with("\\u0069d", '"again"'), _with("i", '"d"'),
)  # fmt: skip


def avro_bodies(chance: random.Random, count: int) -> Iterator[Made]:
    """Written with other types here and there, or broken."""
    import fastavro

    # As a producer writes that went from int to long; with raw bytes and longs for what its types would not take.
    raw = [
        {**field, "type": ["null", {"n": "long", "price": "bytes", "at": "long"}.get(field["name"], field["type"][1])]}
        for field in AVRO["fields"]
    ]
    schema = fastavro.parse_schema({**AVRO, "fields": raw})
    for _ in range(count):
        one = values(chance)
        cents = None if one.price is None else int(one.price.scaleb(2))
        price = None if cents is None else cents.to_bytes(9, signed=True)
        record: dict[str, Any] = {**fields_of(one), "price": price, "at": one.micros}
        fate = Fate.EVENT
        if chance.random() < 0.1:
            fate = Fate.DEAD
            name, value = chance.choice((
                ("n", 1 << 31), ("n", -(1 << 63)), ("at", 1 << 62), ("at", -(1 << 60)),
                ("price", (10**12).to_bytes(9)), ("price", b"\x7f" * 40),
            ))  # fmt: skip
            record[name] = value
        stream = BytesIO()
        fastavro.schemaless_writer(stream, schema, record)
        yield perhaps_broken(chance, Made(stream.getvalue(), fate, one if fate is Fate.EVENT else None))


def protobuf_bodies(chance: random.Random, count: int) -> Iterator[Made]:
    """Messages of the type in ``protobuf_schema``, or broken ones."""
    from tests.spark.hostile.protobuf_schema import message_type

    kind = message_type()
    for _ in range(count):
        one = values(chance)
        message = kind()
        for name in ("id", "n", "note", "kind", "code", "ratio"):
            if (value := getattr(one, name)) is not None:
                setattr(message, name, value)
        if one.price is not None:
            message.price = int(one.price)
            one = Values(**{**fields_of(one), "price": Decimal(int(one.price))})
        if one.micros is not None:
            message.at.seconds, micros = divmod(one.micros, 1_000_000)
            message.at.nanos = micros * 1000
        fate = Fate.EVENT
        if chance.random() < 0.1:
            fate = Fate.DEAD
            seconds, nanos = chance.choice(((1 << 62, 0), (-(1 << 62), 0), (0, 1), (0, -1), (0, 2_000_000_000)))
            message.at.seconds, message.at.nanos = seconds, nanos
        made = Made(message.SerializeToString(), fate, one if fate is Fate.EVENT else None)
        yield perhaps_broken(chance, made)


def fields_of(one: Values) -> dict[str, Any]:
    return {name: getattr(one, name) for name in Values.__slots__}


def perhaps_broken(chance: random.Random, made: Made) -> Made:
    if chance.random() > 0.2:
        return made
    body = made.body
    match chance.randrange(5):
        case 0:
            return Made(_any_byte(chance, body), Fate.EITHER)
        case 1:
            return Made(body[: chance.randrange(1, len(body))], Fate.EITHER)
        case 2:
            return Made(body + chance.randbytes(chance.randrange(1, 5)), Fate.EITHER)
        case 3:
            return Made(chance.randbytes(chance.randrange(1, 60)), Fate.EITHER)
    return Made(body + body, Fate.EITHER)
