"""Bodies that name their schema are decoded with the registry's, and every other one says why it is none."""

from __future__ import annotations

import json
import ssl
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf")
pytest.importorskip("confluent_kafka.schema_registry")
pytest.importorskip("grpc_tools")

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.decoding import Decoder, decoder_of, event_columns
from gantrymq.spark.pipelines.job import Body
from gantrymq.spark.registry.client import RegistryAway, RegistryRefused, Schemas, SchemaUnknown
from gantrymq.spark.registry.place import CA, PASSWORD, USER, Registry, registry_of
from gantrymq.spark.registry.wire import header
from tests.runtime.tls.peers import file
from tests.spark.pipelines.formats.decoded import events, reasons
from tests.spark.registry.contract import JSON_SCHEMA, ORDER, WIDER, register
from tests.spark.registry.decoding import decoded, in_avro
from tests.spark.registry.server import RegistryServer

WIRE = "the body is not in the wire format of a schema registry: "


def order(number: int, name: str = "o-1") -> bytes:
    return header(number) + in_avro(ORDER, {"id": name})


@pytest.mark.slow
def test_each_kind_of_schema(tmp_path: Path) -> None:
    """The same as ``python -m tests.spark.registry.contract`` compares with a real registry."""
    with RegistryServer() as server:
        register(server.url)
        assert decoded(server.url, tmp_path) == [
            {"id": "o-1", "n": 0}, {"id": "o-2", "n": 7}, None, None, None, None, None,
            None, None,
            "the schema of the body cannot be read: shop.Payment cannot be read as shop.Order",
            "the schema of json-value 1 is of the kind JSON, and body.format is avro",
            "the schema registry URL does not have the schema 99999",
            f"{WIRE}it begins with the byte 0x01, and not with 0",
            f"{WIRE}it begins with the byte 0x06, and not with 0",
            {"id": "o-1"}, None,
            None, "the schema of a-value 2 is not one of the subject b-value",
            {"order": {"id": "o-1"}}, None,
            {"id": "o-1"}, None, None,
            None, "the body is of the message type shop.Other, and body.message is shop.Order",
            "the body is of the message type [3], which its schema does not have",
            {"order": {"id": "o-1"}}, None,
        ]  # fmt: skip


def test_a_schema_is_fetched_once() -> None:
    """By each process, however many batches there are. One that the registry does not have is not asked for at once
    again, too."""
    with RegistryServer() as server:
        number = server.register("orders-value", ORDER)
        body = Body(format="avro", registry=server.url, subject="orders-value")
        for _ in range(3):
            assert events(body, *[order(number)] * 5, order(number + 1)) == [{"id": "o-1"}] * 5 + [None]
        asked = {path: count for path, count in server.questions.items() if path.startswith("/schemas")}
        assert asked == {f"/schemas/ids/{number}": 1, f"/schemas/ids/{number}/subjects": 1,
                         f"/schemas/ids/{number + 1}": 1}  # fmt: skip


@pytest.mark.slow
def test_a_registry_that_is_away_makes_no_dead_letters(caplog: pytest.LogCaptureFixture) -> None:
    with RegistryServer() as server:
        number = server.register("orders-value", ORDER)
        body = Body(format="avro", registry=server.url, subject="orders-value")
        decoder = decoder_of(body)
        server.away = True
        back = threading.Timer(2.2, setattr, (server, "away", False))
        back.start()
        event, reason = event_columns(decoder.format, pa.array([order(number)]))
        assert (event.to_pylist(), reason.to_pylist()) == ([{"id": "o-1"}], [None])
        assert f"asking the schema registry {server.url} for the schema {number} fails since" in caplog.text
        back.join()


def test_a_registry_that_stays_away() -> None:
    with RegistryServer() as server:
        gone = server.url
        server.away = True
        with pytest.raises(RegistryAway, match="answered 503 when it was asked for the schema 7: not now"):
            Schemas(Registry(gone), away_ms=0).schema(7)
    with pytest.raises(RegistryAway, match=r"does not answer as one .* start it, or correct body.registry"):
        Schemas(Registry(gone), away_ms=0).schema(7)


def test_only_the_registry_says_that_there_is_no_schema() -> None:
    """Something else that answers 404 must not turn good messages into dead letters."""
    with RegistryServer() as server:
        with pytest.raises(SchemaUnknown):
            Schemas(Registry(server.url)).schema(7)
        with pytest.raises(RegistryRefused, match=r"Is body\.registry the address of its API\?"):
            Schemas(Registry(f"{server.url}/other"), away_ms=0).schema(7)


def test_what_a_schema_in_json_names_is_not_asked_for() -> None:
    """Nothing there is read, so it must not decide about a body."""
    with RegistryServer() as server:
        number = server.register("j", "{}", "JSON", [{"name": "x", "subject": "gone", "version": 1}])
        assert Schemas(Registry(server.url)).schema(number).references == ()


def test_users_and_tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file("server.pem"), file("server.key"))
    with RegistryServer("ann", "s:cret", context) as server:
        server.register("orders-value", ORDER)
        given = {USER: "ann", PASSWORD: "s:cret", CA: file("authority.pem")}
        registry = registry_of(server.url, given)
        assert Schemas(registry).newest("orders-value").number == 1
        assert "s:cret" not in repr(registry)
        with pytest.raises(RegistryRefused, match=f"answered 401 .*: set {USER} and {PASSWORD}"):
            Schemas(registry_of(server.url, {**given, PASSWORD: "x"}), away_ms=0).newest("orders-value")
        with pytest.raises(RegistryAway, match="CERTIFICATE_VERIFY_FAILED"):
            Schemas(registry_of(server.url, {USER: "ann", PASSWORD: "x"}), away_ms=0).newest("orders-value")
    with pytest.raises(ConfigError, match="set both"):
        registry_of("http://localhost", {USER: "ann"})


def test_the_newest_schema_of_a_subject_is_the_jobs_own() -> None:
    with RegistryServer() as server:
        first = server.register("orders-value", ORDER)
        body = Body(format="avro", registry=server.url, subject="orders-value")
        assert decoder_of(body).spark_type == "struct<`id`:string>"
        server.register("orders-value", WIDER)
        assert decoder_of(body).spark_type == "struct<`id`:string,`n`:int>"
        assert events(body, order(first)) == [{"id": "o-1", "n": 0}]
        with pytest.raises(ConfigError, match="does not have the newest schema of the subject x; register it"):
            decoder_of(Body(format="avro", registry=server.url, subject="x"))
        server.register("numbers", '"long"')
        with pytest.raises(ConfigError, match="the newest schema of numbers cannot be the job's: it must be a record"):
            decoder_of(Body(format="avro", registry=server.url, subject="numbers"))


def test_schemas_that_are_none() -> None:
    """Confluent's registry refuses them. Another one may not."""
    with RegistryServer() as server:
        server.register("orders-value", ORDER)
        bad = [server.register("bad", text, kind) for text, kind in (("{", "AVRO"), ('{"type":"enum"}', "AVRO"))]
        body = Body(format="avro", registry=server.url, subject=None)
        decoder = _with_schema(body, ORDER)
        _, reason = event_columns(decoder.format, pa.array([order(number) for number in bad]))
        assert all(str(one).startswith(f"the schema {number} cannot be read: this is not an Avro schema")
                   for one, number in zip(reason, bad, strict=True))  # fmt: skip


def _with_schema(body: Body, schema: Any) -> Decoder:
    import msgspec

    plain = Decoder("avro", json.dumps(schema).encode(), "", frozenset(), None)  # type: ignore[arg-type]
    kind = plain.format.kind
    return Decoder("avro", plain.schema, "", frozenset(), kind, registry_of(msgspec.to_builtins(body)["registry"], {}))


def test_json_behind_a_header(spark: Any) -> None:
    with RegistryServer() as server:
        number = server.register("json-value", JSON_SCHEMA, "JSON")
        body = Body(schema="id string", registry=server.url)
        assert reasons(body, header(number) + b'{"id":"a"}', header(number) + b'{"id":5}', b'{"id":"a"}') == [
            None, reasons(body, header(number) + b'{"id":5}')[0], f"{WIRE}it begins with the byte 0x7b, and not with 0",
        ]  # fmt: skip
