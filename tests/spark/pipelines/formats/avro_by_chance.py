"""Schemas, values and bodies in Avro by chance. ``python -m tests.spark.pipelines.formats.avro_by_chance --rounds N``
compares the reader of many bodies with the loop, as a test does for a few."""

from __future__ import annotations

import argparse
import json
import random
import sys
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.avro import AvroFormat

NUMBERS = (0, 1, -1, 63, 64, 300, -70_000, (1 << 31) - 1, -(1 << 31), 1 << 31, 1 << 53, (1 << 53) + 1, (1 << 63) - 1,
           -(1 << 63), 253_402_300_799_999, 2_932_896, 2_932_897)  # fmt: skip
TEXTS = ("", "a", "zwölf", "\u20ac" * 3, "x" * 200, "\0", "NULL")
LOGICAL = (("long", "timestamp-millis"), ("long", "timestamp-micros"), ("long", "local-timestamp-millis"),
           ("int", "date"), ("int", "time-millis"), ("string", "uuid"))  # fmt: skip


def schema(chance: random.Random, depth: int = 0, counter: list[int] | None = None) -> Any:
    """A type; a record at the top."""
    counter = counter if counter is not None else [0]
    counter[0] += 1
    number = counter[0]
    if depth == 0 or (depth < 3 and chance.random() < 0.15):
        fields = [{"name": f"f{at}", "type": schema(chance, depth + 1, counter)} for at in range(chance.randint(1, 5))]
        return {"type": "record", "name": f"R{number}", "fields": fields}
    match chance.randrange(12):
        case 0 if depth < 3:
            return {"type": "array", "items": schema(chance, depth + 1, counter)}
        case 1 if depth < 3 and chance.random() < 0.3:
            return {"type": "map", "values": schema(chance, depth + 1, counter)}
        case 2:
            return {"type": "enum", "name": f"E{number}", "symbols": ["A", "B", "C"]}
        case 3:
            return {"type": "fixed", "name": f"F{number}", "size": chance.choice((1, 4, 12))}
        case 4:
            precision = chance.choice((3, 12, 18, 19, 38))
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": chance.randint(0, 2)}
        case 5:
            base, logical = chance.choice(LOGICAL)
            return {"type": base, "logicalType": logical}
        case 6 | 7 | 8:
            inner = schema(chance, 3, counter)
            if isinstance(inner, list):
                return inner
            if chance.random() < 0.15:
                return chance.choice((["int", "null", "long"], ["float", "double"], ["long", "int"]))
            return ["null", inner] if chance.random() < 0.7 else [inner, "null", {
                "type": "record", "name": f"U{number}", "fields": [{"name": "u", "type": "string"}]}]  # fmt: skip
    return chance.choice(("string", "bytes", "int", "long", "float", "double", "boolean"))


def raw(one: Any) -> Any:
    """The schema with its logical types left out, to write what they would not take."""
    if isinstance(one, list):
        return [raw(inner) for inner in one]
    if isinstance(one, dict):
        return {name: raw(value) for name, value in one.items() if name not in ("logicalType", "precision", "scale")}
    return one


def value(chance: random.Random, one: Any) -> Any:
    if isinstance(one, list):
        inner = chance.choice(one)
        made = value(chance, inner)
        named = isinstance(inner, dict) and inner["type"] in ("record", "enum", "fixed")
        return (inner["name"], made) if named else made
    name = one["type"] if isinstance(one, dict) else one
    match name:
        case "record":
            return {field["name"]: value(chance, field["type"]) for field in one["fields"]}
        case "array":
            return [value(chance, one["items"]) for _ in range(chance.choice((0, 0, 1, 2, 5, 70)))]
        case "map":
            return {text: value(chance, one["values"]) for text in TEXTS[: chance.randrange(3)]}
        case "enum":
            return chance.choice(one["symbols"])
        case "fixed":
            return chance.randbytes(one["size"])
        case "null":
            return None
        case "boolean":
            return chance.random() < 0.5
        case "float" | "double":
            return float(chance.choice((0, 1.5, -2.25, 1e30)))
        case "string":
            return chance.choice(TEXTS)
        case "bytes":
            return chance.choice((b"", b"\0", b"\x7f", b"\xff\x80", chance.randbytes(8), chance.randbytes(12), b"abc"))
    numbers = [number for number in NUMBERS if name == "long" or -(1 << 31) <= number < 1 << 31]
    return chance.choice(numbers)


def evolved(chance: random.Random, one: Any) -> Any:
    """A later schema of the job: other order, fields that are gone or new, wider types."""
    fields = [dict(field) for field in one["fields"] if chance.random() > 0.15]
    for field in fields:
        if field["type"] in (["int", "null", "long"], ["float", "double"], ["long", "int"]) and chance.random() < 0.5:
            field["type"] = chance.choice(("long", "double", ["null", "int"], ["null", "string", "float"]))
        wider = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
        if isinstance(field["type"], str) and chance.random() < 0.3:
            field["type"] = wider.get(field["type"], field["type"])
        if not isinstance(field["type"], list) and chance.random() < 0.2:
            field["type"] = ["null", field["type"]]
    if chance.random() < 0.5 or not fields:
        fields.append({"name": "added", "type": ["null", "string"], "default": None})
    if chance.random() < 0.3:
        fields.append({"name": "bytes", "type": "bytes", "default": "\u00ff"})
    chance.shuffle(fields)
    return {**one, "fields": fields}


def bodies(chance: random.Random, one: Any, count: int) -> list[bytes]:
    parsed = fastavro.parse_schema(raw(one))
    made: list[bytes] = []
    for _ in range(count):
        stream = BytesIO()
        fastavro.schemaless_writer(stream, parsed, value(chance, raw(one)))
        body = stream.getvalue()
        if chance.random() < 0.25:
            at = chance.randrange(len(body) + 1)
            body = chance.choice((
                body[:at], body + b"\0", body[:at] + chance.randbytes(1) + body[at + 1 :], chance.randbytes(at),
                body[:at] + b"\xff" * 11 + body[at:], body[:at] + b"\x80\0" + body[at + 1 :],
            ))  # fmt: skip
        made.append(body)
    return made


def differences(seed: int, count: int) -> tuple[list[str], int]:
    """Bodies that both ways decode otherwise, and how many were read without the loop."""
    chance = random.Random(seed)
    writer = schema(chance)
    reader = evolved(chance, writer) if chance.random() < 0.6 else writer
    try:
        form = AvroFormat.reading(json.dumps(reader).encode(), json.dumps(writer).encode())
    except ConfigError:
        return [], 0
    made = bodies(chance, writer, count)
    column = pa.array(made, pa.binary())[1:] if count > 1 else pa.array(made, pa.binary())
    together, alone = form.decode(column), form.decode_each(column)
    together.events.validate(full=True)
    lines = [
        f"seed {seed}, body {at} {body.as_py()!r}: {one.as_py()} {together.reasons.get(at)} is not {other.as_py()} "
        f"{alone.reasons.get(at)}"
        for at, (body, one, other) in enumerate(zip(column, together.events, alone.events, strict=True))
        if repr(one.as_py()) != repr(other.as_py()) or together.reasons.get(at) != alone.reasons.get(at)
    ]
    return lines, 0 if form._columns is None else int((~form._columns.decode(column)[1]).sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--bodies", type=int, default=50, help="of each schema")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    wrong, read = 0, 0
    for seed in range(given.seed, given.seed + given.rounds):
        lines, without_loop = differences(seed, given.bodies)
        wrong, read = wrong + len(lines), read + without_loop
        print(*lines[:3], sep="\n", end="\n" if lines else "")
    print(f"{given.rounds} schemas, {given.rounds * given.bodies} bodies, {read} read without the loop, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
