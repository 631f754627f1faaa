"""Bodies by chance in Confluent's wire format: with the ids of several schemas, some of which the job must not read."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any, Final

from gantrymq.spark.registry.wire import header
from tests.spark.hostile.bodies import (
    AVRO,
    Fate,
    Made,
    fields_of,
    json_bodies,
    perhaps_broken,
    protobuf_bodies,
)
from tests.spark.hostile.protobuf_schema import PROTO
from tests.spark.hostile.values import Values, values
from tests.spark.registry.server import RegistryServer

SUBJECT: Final = "hostile-value"
PREFIX: Final = "registered_"
OWN: Any = {**AVRO, "fields": [{**field, "default": None} for field in AVRO["fields"]]}
"""The job's own schema: every column may be missing."""
_MORE = {"name": "more", "type": {"type": "map", "values": ["null", "string", "long"]}}


def _evolved(**types: Any) -> Any:
    """The schema with other types for some fields, and without those whose type is None."""
    changed = [{**field, "type": types.get(field["name"], field["type"])} for field in AVRO["fields"]]
    return {**AVRO, "fields": [field for field in changed if field["type"] is not None]}


_AVRO_VERSIONS: Final = (
    AVRO,
    {**AVRO, "fields": [_MORE, *reversed(AVRO["fields"])]},
    _evolved(note=None, ratio=["null", "float"]),
    _evolved(n=["null", "long"]),
    _evolved(id=["string", "null"], kind=["null", "bytes"]),
)
_PROTO_VERSIONS: Final = (
    PROTO,
    PROTO.replace("message Event", "message Other { optional int32 x = 1; }\nmessage Event").replace(
        "optional string id = 1", "repeated bytes more = 77; optional string id = 1"
    ),
    PROTO.replace("string note", "int64 note"),
)
_JSON_VERSIONS: Final = ("{}", '{"type":"object","properties":{"id":{"type":"string"}}}')
_OF_OTHERS: Final = (
    ("others-value", json.dumps({**AVRO, "doc": "of others"}), "AVRO"),
    ("others-value-json", '{"title":"of others"}', "JSON"),
    ("others-value-protobuf", 'syntax = "proto3"; message Event { string id = 1; }', "PROTOBUF"),
)


@contextmanager
def registry_for(form: str) -> Iterator[str]:
    """The address of a registry with the schemas of a format: the versions have the ids 1, 2 and so on, and those of
    other subjects follow."""
    versions, kind = {
        "registered_avro": ([json.dumps(one) for one in _AVRO_VERSIONS], "AVRO"),
        "registered_protobuf": (list(_PROTO_VERSIONS), "PROTOBUF"),
        "registered_json": (list(_JSON_VERSIONS), "JSON"),
    }[form]
    with RegistryServer() as server:
        for text in versions:
            server.register(SUBJECT, text, kind)
        for subject, text, other in _OF_OTHERS:
            server.register(subject, text, other)
        yield server.url


def registered_avro(chance: random.Random, count: int) -> Iterator[Made]:
    import fastavro

    schemas = [fastavro.parse_schema(_raw(one)) for one in _AVRO_VERSIONS]
    for _ in range(count):
        one = values(chance)
        version = chance.randrange(len(schemas))
        made = _in_avro(version, schemas[version], one)
        yield _framed(chance, version + 1, len(schemas), perhaps_broken(chance, made))


def _raw(schema: Any) -> Any:
    """Without the meaning of decimals and times: the record has what is written."""
    plain = {"price": ["null", "bytes"], "at": ["null", "long"]}
    return {**schema, "fields": [{**field, "type": plain.get(field["name"], field["type"])} for field in
                                 schema["fields"]]}  # fmt: skip


def _in_avro(version: int, schema: Any, one: Values) -> Made:
    """A record of one of the versions, and what the job must make of it."""
    import fastavro

    cents = None if one.price is None else int(one.price.scaleb(2)).to_bytes(9, signed=True)
    record: dict[str, Any] = {**fields_of(one), "price": cents, "at": one.micros, "more": {"a": "b", "c": 1 << 40}}
    fate = Fate.EVENT
    if version == 2:
        # A float of 64 bits does not fit into 32: the producer has another number then.
        ratio = None if one.ratio is None else _single(one.ratio)
        record["ratio"], one = ratio, replace(one, note=None, ratio=ratio)
    if version == 3 and one.n is not None:
        fate = Fate.DEAD
    if version == 4 and one.kind is not None:
        record["kind"] = one.kind.encode()
    stream = BytesIO()
    fastavro.schemaless_writer(stream, schema, record)
    return Made(stream.getvalue(), fate, one if fate is Fate.EVENT else None)


def _single(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return 0.5


def registered_protobuf(chance: random.Random, count: int) -> Iterator[Made]:
    for made in protobuf_bodies(chance, count):
        version = chance.randrange(len(_PROTO_VERSIONS))
        right = (b"\0", b"\2\0") if version != 1 else (b"\2\2",)
        wrong = (
            (b"\2\2", b"\4\0\0", b"\2\1", b"\xff\xff\xff\xff\xff\xff") if version != 1 else (b"\0", b"\2\0", b"\2\4")
        )
        if chance.random() < 0.1:
            # No message type, or another one.
            made = Made(chance.choice(wrong) + made.body, Fate.DEAD)
        elif version == 2:
            made = Made(chance.choice(right) + made.body, Fate.DEAD)
        else:
            made = Made(chance.choice(right) + made.body, made.fate, made.values)
        yield _framed(chance, version + 1, len(_PROTO_VERSIONS), made)


def registered_json(chance: random.Random, count: int) -> Iterator[Made]:
    for made in json_bodies(chance, count):
        yield _framed(chance, chance.randint(1, len(_JSON_VERSIONS)), len(_JSON_VERSIONS), made)


def _framed(chance: random.Random, number: int, versions: int, made: Made) -> Made:
    """The body behind a header, which is wrong now and then."""
    match chance.randrange(40):
        case 0:
            return Made(bytes([chance.randrange(1, 256)]) + header(number)[1:] + made.body, Fate.DEAD)
        case 1:
            unknown = chance.choice((0, 99, 1 << 31, (1 << 32) - 1, chance.randrange(1 << 20, 1 << 32)))
            return Made(header(unknown) + made.body, Fate.DEAD)
        case 2 | 3:
            return Made(header(versions + chance.randint(1, len(_OF_OTHERS))) + made.body, Fate.DEAD)
        case 4:
            return Made(header(number)[: chance.randrange(1, 5)], Fate.DEAD)
        case 5:
            return Made(made.body or b"x", Fate.EITHER if made.body[:1] == b"\0" else Fate.DEAD)
        case 6:
            # The id of another version: its bytes may mean something there, or nothing.
            return Made(header(chance.randint(1, versions)) + made.body, Fate.EITHER)
    return Made(header(number) + made.body, made.fate, made.values)
