"""Bodies that are written by Confluent's own serializers or by hand, and decoded with the help of a registry."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

from gantrymq.spark.pipelines.job import Body
from gantrymq.spark.registry.wire import header
from tests.spark.pipelines.formats.decoded import events, reasons
from tests.spark.registry.contract import JSON_SCHEMA, ORDER, PAYMENT, PROTO, WIDER, ids_of


def in_avro(schema: Any, value: Any) -> bytes:
    import fastavro

    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def decoded(url: str, where: Path) -> list[Any]:
    """What our formats say of bodies of each kind. Reasons do not have the ids and addresses."""
    ids = ids_of(url)
    (where / "wider.avsc").write_text(json.dumps(WIDER))
    order = in_avro(ORDER, {"id": "o-1"})
    bodies = [
        header(ids["a-value 1"]) + order,
        header(ids["a-value 2"]) + in_avro(WIDER, {"id": "o-2", "n": 7}),
        header(ids["payment-value 1"]) + order,
        header(ids["json-value 1"]) + b'{"id":"o-1"}',
        header(99_999) + order,
        b"\1" + header(ids["a-value 1"])[1:] + order,
        order[:2],
    ]
    protobuf = [header(ids["proto-value 1"]) + one for one in (b"\2\2\n\3o-1", b"\0\n\3o-1", b"\2\6\n\3o-1")]
    payment = in_avro({**PAYMENT, "fields": [{"name": "order", "type": ORDER}]}, {"order": {"id": "o-1"}})
    jobs = [
        (Body(format="avro", registry=url, schema_file=f"{where}/wider.avsc"), bodies),
        (Body(format="avro", registry=url, subject="b-value"), bodies[:2]),
        (Body(format="avro", registry=url, subject="payment-value"), [header(ids["payment-value 1"]) + payment]),
        (Body(format="protobuf", registry=url, subject="proto-value", message="shop.Order"), protobuf),
        (Body(format="protobuf", registry=url, subject="importing-value", message="shop.Payment"),
         [header(ids["importing-value 1"]) + b"\0\n\5\n\3o-1"]),
    ]  # fmt: skip
    found: list[Any] = []
    for body, made in jobs:
        found += events(body, *made)
        found += [_without_ids(reason, url, ids) for reason in reasons(body, *made)]
    return found


def _without_ids(reason: str | None, url: str, ids: dict[str, int]) -> str | None:
    if reason is None:
        return None
    for name, number in ids.items():
        reason = reason.replace(f"schema {number} ", f"schema of {name} ")
    return reason.replace(url, "URL")


def differences(real: str, ours: str, where: Path) -> list[str]:
    pairs = zip(decoded(real, where), decoded(ours, where), strict=True)
    return [f"{one!r} of the real registry is not {other!r}" for one, other in pairs if one != other]


__all__ = ["JSON_SCHEMA", "PROTO", "decoded", "differences", "in_avro"]
