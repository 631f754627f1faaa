"""Before its first batch a job says which versions of its subject it cannot read, and which field is the reason."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry")

from gantrymq.spark.pipelines.formats.column_types import ColumnType, Field, Scalar
from gantrymq.spark.pipelines.formats.json_schema import unreadable
from gantrymq.spark.pipelines.job import Body, Job
from gantrymq.spark.pipelines.run.registry_check import SchemasUnreadable, problems_of, refuse_unreadable
from gantrymq.spark.registry.client import RegistryAway
from tests.spark.registry.contract import ORDER, WIDER
from tests.spark.registry.server import RegistryServer

LONG_ID = {**ORDER, "fields": [{"name": "id", "type": "long"}]}


def job_of(url: str, where: Path, schema: Any = ORDER, **rest: Any) -> Job:
    (where / "order.avsc").write_text(json.dumps(schema))
    body = Body(format="avro", registry=url, subject="orders", schema_file=f"{where}/order.avsc", **rest)
    return Job(name="orders", checkpoint="x", source={}, targets={}, body=body)


def test_avro(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RegistryServer() as server:
        for schema in (LONG_ID, ORDER, WIDER):
            server.register("orders", schema)
        old = "version 1 of orders (id 1) cannot be read: the field id: long cannot be read as string"
        assert list(problems_of(job_of(server.url, tmp_path).body)) == [old]
        with pytest.raises(
            SchemasUnreadable, match=r"body\.subject: version 1 of orders .*\. Give such fields a default"
        ):
            refuse_unreadable(job_of(server.url, tmp_path), new=True)
        # A job that has batches must not be stopped by somebody who registers a schema.
        with caplog.at_level(logging.WARNING):
            refuse_unreadable(job_of(server.url, tmp_path), new=False)
        assert f"messages of these schemas will be dead letters: {old}" in caplog.text
        for readable in ("newest", "none"):
            refuse_unreadable(job_of(server.url, tmp_path, compatibility=readable), new=True)
        more = {**WIDER, "fields": [{"name": "must", "type": "int"}]}
        (found,) = problems_of(job_of(server.url, tmp_path, more, compatibility="newest").body)
        assert found.endswith("the field must: the writer does not have it, and the schema of the job has no default")


def test_what_the_registry_does_not_have(tmp_path: Path) -> None:
    with RegistryServer() as server:
        with pytest.raises(SchemasUnreadable, match="does not have the versions of the subject orders"):
            refuse_unreadable(job_of(server.url, tmp_path), new=True)
        server.register("orders", '{"type":"object"}', "JSON")
        with pytest.raises(SchemasUnreadable, match=r"it is of the kind JSON, and body\.format is avro"):
            refuse_unreadable(job_of(server.url, tmp_path), new=True)
    with pytest.raises(RegistryAway):
        refuse_unreadable(job_of(server.url, tmp_path), new=True, away_ms=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("string id = 1; int64 n = 2; repeated string tags = 3;", None),
        ("string other = 1;", None),
        ("int32 id = 1;", "the field id: number 1 is int32 (id), which cannot be read as string"),
        ("uint64 n = 2;", "the field n: number 2 is uint64 (n), which cannot be read as int64"),
        ("repeated int64 n = 2;", "the field n: number 2 is repeated, and the job reads one value"),
        (
            "In in = 4; message In { string x = 1; }",
            "the field in.x: number 1 is string (x), which cannot be read as int32",
        ),
    ],
)
def test_protobuf(fields: str, problem: str | None, tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    own = "string id = 1; int64 n = 2; repeated string tags = 3; In in = 4; message In { int32 x = 1; }"
    with RegistryServer() as server:
        for subject, text in (("own", own), ("orders", fields)):
            server.register(subject, f'syntax = "proto3"; package p; message Order {{ {text} }}', "PROTOBUF")
        from gantrymq.spark.registry.client import Schemas
        from gantrymq.spark.registry.place import Registry
        from gantrymq.spark.registry.protobuf_files import compiled

        (tmp_path / "own.desc").write_bytes(compiled(Schemas(Registry(server.url)).newest("own").schema))
        body = Body(format="protobuf", registry=server.url, subject="orders", schema_file=f"{tmp_path}/own.desc",
                    message="p.Order")  # fmt: skip
        found = [text.partition("cannot be read: ")[2] for text in problems_of(body)]
        assert found == ([] if problem is None else [problem])


@pytest.mark.parametrize(
    ("schema", "problems"),
    [
        ({"properties": {"id": {"type": "string"}, "n": {"type": ["integer", "null"]}}, "required": ["id"]}, []),
        ({}, []),
        ({"properties": {"id": {"type": "integer"}}, "required": ["id"]},
         ["the field id: integer cannot be read as string"]),
        ({"properties": {"id": {"type": "string"}}},
         ["the field id: it is NOT NULL, and the schema does not require it"]),
        ({"properties": {"n": {"type": "number"}, "id": {}}, "required": ["id"]},
         ["the field n: number cannot be read as bigint"]),
        ({"properties": {"in": {"$ref": "#/definitions/I"}, "id": {}}, "required": ["id"],
          "definitions": {"I": {"properties": {"x": {"type": "array", "items": {"type": "string"}}}}}},
         ["the field in.x[]: string cannot be read as double"]),
        ({"properties": {"n": {"oneOf": [{"type": "null"}, {"type": "string"}]}, "id": {}}, "required": ["id"]},
         ["the field n: string cannot be read as bigint"]),
    ],
)  # fmt: skip
def test_json_schemas(schema: Any, problems: list[str]) -> None:
    numbers = ColumnType(Scalar.ARRAY, of=ColumnType(Scalar.DOUBLE))
    kind = ColumnType(Scalar.STRUCT, fields=(
        Field("id", ColumnType(Scalar.STRING), required=True), Field("n", ColumnType(Scalar.LONG)),
        Field("in", ColumnType(Scalar.STRUCT, fields=(Field("x", numbers),))),
    ))  # fmt: skip
    assert unreadable(json.dumps(schema), kind, any_as_text=False) == problems
    loose = [one for one in problems if "integer cannot be read as string" not in one]
    assert unreadable(json.dumps(schema), kind, any_as_text=True) == loose
