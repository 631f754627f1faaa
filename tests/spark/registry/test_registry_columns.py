"""Columns of a Spark query from a registry and to it, in one session and with a real server."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry")

from gantrymq.errors import ConfigError
from gantrymq.spark.registry.wire import header
from gantrymq.spark.registry_columns import from_registry, to_registry
from tests.spark.registry.contract import PROTO
from tests.spark.registry.decoding import in_avro
from tests.spark.registry.server import RegistryServer

pytestmark = pytest.mark.spark
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
ORDER: Any = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "string"}, {"name": "at", "type": ["null", MILLIS], "default": None}]}  # fmt: skip


def test_there_and_back(spark: Any) -> None:
    from pyspark.sql import functions as f

    with RegistryServer() as server:
        number = server.register("orders", ORDER)
        rows = spark.sql(
            "SELECT named_struct('id', 'o-1', 'at', timestamp'2026-01-31 12:00:00.5') AS o UNION ALL SELECT NULL"
        )
        bodies = rows.select(to_registry("o", server.url, "orders").alias("body")).coalesce(1)
        read = bodies.select("body", from_registry("body", server.url, subject="orders").alias("read"))
        first, second = read.select("body", "read.event.*", "read.reason").orderBy(f.desc("id")).collect()
        at = datetime(2026, 1, 31, 12, 0, 0, 500_000)
        assert (first.id, first.at, first.reason) == ("o-1", at, None)
        assert bytes(first.body).startswith(header(number))
        assert (second.body, second.reason) == (None, "the message has no body")


def test_what_does_not_fit_the_schema(spark: Any) -> None:
    from pyspark.errors import PySparkException

    with RegistryServer() as server:
        server.register("orders", ORDER)
        for values, reason in (
            ("'id', 'o-1', 'at', timestamp'2026-01-31 12:00:00.123456'", "a value of the column at as it is"),
            ("'id', CAST(NULL AS string)", "a row does not fit the newest schema of orders"),
            ("'id', 'o-1', 'more', 5", "has no field more; remove it"),
        ):
            frame = spark.sql(f"SELECT named_struct({values}) AS o").select(to_registry("o", server.url, "orders"))
            with pytest.raises(PySparkException, match=reason):
                frame.collect()


def test_a_query_says_in_one_sentence_what_is_wrong_with_its_registry(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    with RegistryServer() as server:
        frame = spark.sql("SELECT X'000000000700' AS body").select(
            from_registry("body", f"{server.url}/other", schema_file=f"{tmp_path}/order.avsc")
        )
        with pytest.raises(PySparkException, match=r"Is body\.registry the address of its API\?") as caught:
            frame.collect()
        assert "Traceback" not in str(caught.value)


def test_headers_before_json_and_protobuf(spark: Any) -> None:
    pytest.importorskip("grpc_tools")
    with RegistryServer() as server:
        by_json = server.register("j", "{}", "JSON")
        by_protobuf = server.register("p", PROTO, "PROTOBUF")
        frame = spark.sql("SELECT '{\"id\":\"a\"}' AS text, X'0A0161' AS bytes")
        found = frame.select(
            to_registry("text", server.url, "j", format="json").alias("json"),
            to_registry("bytes", server.url, "p", format="protobuf", message="shop.Order").alias("protobuf"),
        ).first()
        assert bytes(found.json) == header(by_json) + b'{"id":"a"}'
        assert bytes(found.protobuf) == header(by_protobuf) + b"\2\2\n\1a"
        with pytest.raises(ConfigError, match=r"has no message shop\.X; it has shop\.Other, shop\.Order"):
            to_registry("bytes", server.url, "p", format="protobuf", message="shop.X")
        with pytest.raises(ConfigError, match="has schemas of the kind JSON, and the format is avro"):
            to_registry("text", server.url, "j")
        with pytest.raises(ConfigError, match="the format avro needs the key schema_file"):
            from_registry("text", server.url)


def test_what_confluents_own_serializer_writes() -> None:
    """The same bytes, so that clients outside of Spark can use it."""
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.serialization import MessageField, SerializationContext

    with RegistryServer() as server:
        number = server.register("orders-value", ORDER)
        client = SchemaRegistryClient({"url": server.url})
        write = avro.AvroSerializer(client, conf={"auto.register.schemas": False, "use.latest.version": True})
        value = {"id": "o-1", "at": None}
        body = write(value, SerializationContext("orders", MessageField.VALUE))
        assert body == header(number) + in_avro(ORDER, value)
