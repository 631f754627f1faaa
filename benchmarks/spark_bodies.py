"""``python -m benchmarks.spark_bodies``: what strict bodies cost, without Spark, and beside Spark's own ``from_json``.

Orders of about 90 bytes with four columns, in batches of 10,000 as Spark gives them to a Python worker. The best of
some rounds of processor time counts for a format. With ``--spark`` one task on one core reads the same bodies from a
table, and decodes them by this package and by ``from_json``, which is not strict; there the time on the clock counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa

from gantrymq.spark.pipelines.formats.avro import AvroFormat
from gantrymq.spark.pipelines.formats.decoding import Decoder, decoder_of
from gantrymq.spark.pipelines.formats.json import JsonFormat
from gantrymq.spark.pipelines.job import Body

ROWS = 10_000
DDL = "order_id string, user_id string, amount_cents bigint, paid_at_ms bigint"
_FIELDS = [one.split() for one in DDL.split(", ")]


def orders(count: int) -> list[dict[str, Any]]:
    return [
        {"order_id": f"o-{number}", "user_id": f"u-{number % 1000}", "amount_cents": number * 7,
         "paid_at_ms": 1_767_225_600_000 + number} for number in range(count)
    ]  # fmt: skip


def json_decoder(where: Path) -> tuple[Decoder, list[bytes]]:
    """Spark's JSON of the columns is written here, because no session reads the DDL."""
    kinds = {"string": "string", "bigint": "long"}
    fields = [{"name": name, "type": kinds[kind], "nullable": True} for name, kind in _FIELDS]
    schema = json.dumps({"type": "struct", "fields": fields}).encode()
    form = JsonFormat.of(schema, frozenset())
    return Decoder("json", schema, "", frozenset(), form.kind), [json.dumps(one).encode() for one in orders(ROWS)]


def avro_decoder(where: Path) -> tuple[Decoder, list[bytes]]:
    import fastavro

    kinds = {"string": "string", "bigint": "long"}
    schema = {"type": "record", "name": "O", "fields": [{"name": name, "type": kinds[kind]} for name, kind in _FIELDS]}
    (where / "o.avsc").write_text(json.dumps(schema))
    bodies = []
    for one in orders(ROWS):
        stream = BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), one)
        bodies.append(stream.getvalue())
    return decoder_of(Body(format="avro", schema_file=f"{where}/o.avsc")), bodies


def protobuf_decoder(where: Path) -> tuple[Decoder, list[bytes]]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    files = descriptor_pb2.FileDescriptorSet()
    message = files.file.add(name="o.proto", syntax="proto3").message_type.add(name="O")
    for number, (name, kind) in enumerate(_FIELDS, 1):
        of = "TYPE_STRING" if kind == "string" else "TYPE_INT64"
        message.field.add(name=name, number=number, type=of, label="LABEL_OPTIONAL")
    (where / "o.desc").write_bytes(files.SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("O"))
    bodies = [made(**one).SerializeToString() for one in orders(ROWS)]
    return decoder_of(Body(format="protobuf", schema_file=f"{where}/o.desc", message="O")), bodies


FORMATS: dict[str, Callable[[Path], tuple[Decoder, list[bytes]]]] = {
    "json": json_decoder, "avro": avro_decoder, "protobuf": protobuf_decoder,
}  # fmt: skip


def best_us(decoder: Decoder, bodies: list[bytes], rounds: int) -> float:
    """Microseconds of processor time for a body."""
    batch = pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], names=["body"])
    best = float("inf")
    for _ in range(rounds):
        begin = time.thread_time()
        for out in decoder.add_event([batch]):
            assert out.column("event").null_count == 0
        best = min(best, time.thread_time() - begin)
    return best / len(bodies) * 1e6


def by_the_loop_us(where: Path, rounds: int) -> float:
    """The same for Avro where its bodies cannot be read together."""
    _, bodies = avro_decoder(where)
    form, column = AvroFormat.of((where / "o.avsc").read_bytes()), pa.array(bodies, pa.binary())
    best = float("inf")
    for _ in range(rounds):
        begin = time.thread_time()
        assert not form.decode_each(column).reasons
        best = min(best, time.thread_time() - begin)
    return best / len(bodies) * 1e6


def on_spark(rows: int, where: Path) -> dict[str, float]:
    """Thousands of bodies in a second, each way, in turns; the best of three."""
    from pyspark.sql import functions as f

    from gantrymq.spark import spark_session

    spark = spark_session("bodies", master="local[1]")
    try:
        numbers = spark.range(0, rows, numPartitions=1)
        order = f.struct(
            f.concat(f.lit("o-"), "id").alias("order_id"), f.concat(f.lit("u-"), f.col("id") % 1000).alias("user_id"),
            (f.col("id") * 7).alias("amount_cents"), (f.col("id") + 1_767_225_600_000).alias("paid_at_ms"),
        )  # fmt: skip
        numbers.select(f.encode(f.to_json(order), "utf-8").alias("body")).write.parquet(f"{where}/bodies")
        bodies = spark.read.parquet(f"{where}/bodies")
        decoder = decoder_of(Body(schema=DDL))
        ways = {
            "strict": bodies.mapInArrow(
                decoder.add_event, f"body binary, event {decoder.spark_type}, event_reason string"
            ),
            "from_json": bodies.withColumn("event", f.from_json(f.col("body").cast("string"), DDL)),
        }
        best = dict.fromkeys(ways, 0.0)
        for _ in range(3):
            for name, frame in ways.items():
                begin = time.monotonic()
                frame.write.format("noop").mode("overwrite").save()
                best[name] = max(best[name], rows / (time.monotonic() - begin) / 1000)
        return {name: round(thousands) for name, thousands in best.items()}
    finally:
        spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--spark", type=int, default=0, metavar="ROWS", help="also on Spark, with so many bodies")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        where = Path(directory)
        found: dict[str, Any] = {name: round(best_us(*make(where), chosen.rounds), 2) for name, make in FORMATS.items()}
        found["avro, one body after the other"] = round(by_the_loop_us(where, chosen.rounds), 2)
        if chosen.spark:
            found["on Spark, thousands per second"] = on_spark(chosen.spark, where)
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
