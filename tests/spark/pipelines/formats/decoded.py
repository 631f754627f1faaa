"""Bodies decoded as a worker of Spark does it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gantrymq.spark.pipelines.formats.decoding import EVENT, REASON, decoder_of
from gantrymq.spark.pipelines.job import Body


def column(name: str, body: Body, *bodies: bytes | None) -> list[Any]:
    batch = pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], names=["body"])
    (out,) = decoder_of(body).add_event([batch])
    values: list[Any] = out.column(name).to_pylist()
    return values


def events(body: Body, *bodies: bytes | None) -> list[Any]:
    return column(EVENT, body, *bodies)


def reasons(body: Body, *bodies: bytes | None) -> list[Any]:
    return column(REASON, body, *bodies)
