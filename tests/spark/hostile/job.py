"""The job that the hostile bodies go through: several targets, each of which refuses something else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from gantrymq.spark.pipelines.job import (
    Body,
    DeltaTarget,
    Events,
    IcebergTarget,
    Job,
    MysqlTarget,
    ParquetTarget,
    PostgresqlTarget,
    Run,
)
from tests.spark.hostile.bodies import AVRO, Made, avro_bodies, json_bodies, protobuf_bodies
from tests.spark.hostile.judge import Found
from tests.spark.hostile.protobuf_schema import NAME, descriptor_set
from tests.spark.hostile.registered import (
    OWN,
    PREFIX,
    SUBJECT,
    registered_avro,
    registered_json,
    registered_protobuf,
)
from tests.spark.hostile.values import LONGEST_NOTE, VALID
from tests.sql.databases import Place

FORMATS: dict[str, Callable[[Random, int], Iterator[Made]]] = {
    "json": json_bodies, "avro": avro_bodies, "protobuf": protobuf_bodies,
    "registered_json": registered_json, "registered_avro": registered_avro, "registered_protobuf": registered_protobuf,
}  # fmt: skip
OFFSET_BYTES = 100
"""Between two messages in the log of the broker."""
TOPIC = "hostile"
WIDE = "parquet"
"""The table with all columns."""
VIEW = "events"
MYSQL = "mysql"
_ALWAYS = "coalesce(7 div n, 0) < 100"
"""True, or an error."""
_PLACE = "message.log_offset AS place"
_DDL = "id string, n int, price decimal(12,2), at timestamp, note string, kind string, code string, ratio double"


def body_of(form: str, where: Path, registry: str | None) -> Body:
    """How the job reads a format. ``registry``: its address, for the formats that name their schemas."""
    if registry is not None:
        plain = body_of(form.removeprefix(PREFIX), where, None)
        if plain.format == "avro":
            (where / "event.avsc").write_text(json.dumps(OWN))
        # Some of the versions cannot be read: their messages must become dead letters.
        return msgspec.structs.replace(plain, registry=registry, subject=SUBJECT, compatibility="none")
    if form == "json":
        return Body(schema=_DDL)
    if form == "avro":
        (where / "event.avsc").write_text(json.dumps(AVRO))
        return Body(format="avro", schema_file=f"{where}/event.avsc")
    (where / "event.desc").write_bytes(descriptor_set())
    return Body(format="protobuf", schema_file=f"{where}/event.desc", message=NAME)


def job_of(
    form: str, where: Path, name_servers: str, database: Place, mysql: Place | None, max_rows: int, registry: str | None
) -> Job:
    """The job; its tables in databases are made here. ``mysql``: None where there is no MariaDB."""
    table = f"hostile_{form}"
    row = f"SELECT {_PLACE}, id, n, price, at, note FROM events"
    others: dict[str, MysqlTarget] = {}
    if mysql is not None:
        mysql.execute(
            f"CREATE TABLE {table} (place bigint PRIMARY KEY, id text, n smallint, price decimal(10,2), "
            f"at datetime(6), note varchar({LONGEST_NOTE + 9})) CHARACTER SET utf8mb4"
        )
        url = f"mysql://{mysql.user}@127.0.0.1:{mysql.port}/{mysql.name}"
        others[MYSQL] = MysqlTarget(url=url, table=table, key=("place",), sql=row)
    database.execute(
        f"CREATE TABLE {table} (place bigint PRIMARY KEY, id text, n smallint, price numeric(10,2), at timestamptz, "
        f"note varchar({LONGEST_NOTE}))"
    )
    catalog = {"type": "sql", "uri": f"sqlite:///{where}/catalog.db", "warehouse": f"file://{where}/lake"}
    return Job(
        name=f"hostile-{form}",
        checkpoint=f"{where}/checkpoint",
        source={"nameServers": name_servers, "subscribe": TOPIC, "columns": "log_offset"},
        body=body_of(form, where, registry),
        events=Events(valid=VALID),
        targets={
            WIDE: ParquetTarget(
                path=f"{where}/{WIDE}",
                sql=f"SELECT {_PLACE}, id, n, price, unix_micros(at) AS micros, note, ratio FROM events",
            ),
            "directories": ParquetTarget(
                path=f"{where}/directories", sql=f"SELECT kind, {_PLACE} FROM events", partition_by=("kind",)
            ),
            "delta": DeltaTarget(path=f"{where}/delta", sql=f"SELECT {_PLACE}, id, 100 div n AS share FROM events"),
            "iceberg": IcebergTarget(
                table="a.b", catalog=catalog, sql=f"SELECT {_PLACE}, id, note FROM events WHERE {_ALWAYS}"
            ),
            "postgresql": PostgresqlTarget(
                dsn=database.dsn,
                table=table,
                key=("place",),
                sql=row,
            ),
            **others,
        },
        dead_letters=ParquetTarget(path=f"{where}/dead"),
        run=Run(interval="0ms", max_rows=max_rows),
    )


def found_in(job: Job, where: Path, database: Place, mysql: Place | None) -> Found:
    """What the job has written, read by the libraries of the tables."""
    import pyarrow.dataset as ds
    from deltalake import DeltaTable
    from pyiceberg.catalog import load_catalog

    def parquet(name: str) -> Any:
        return ds.dataset(f"{where}/{name}", format="parquet")

    iceberg: Any = job.targets["iceberg"]
    postgresql: Any = job.targets["postgresql"]
    wide, dead = parquet(WIDE).to_table().to_pylist(), parquet("dead").to_table().to_pylist()
    places = {
        WIDE: [row["place"] for row in wide],
        "directories": parquet("directories").to_table(columns=["place"])["place"].to_pylist(),
        "delta": DeltaTable(f"{where}/delta").to_pyarrow_table(columns=["place"])["place"].to_pylist(),
        "iceberg": load_catalog("gantry", **iceberg.catalog).load_table("a.b").scan(selected_fields=("place",))
        .to_arrow()["place"].to_pylist(),
        "postgresql": [place for (place,) in database.execute(f"SELECT place FROM {postgresql.table}")],
    }  # fmt: skip
    changed: list[str] = []
    if mysql is not None:
        asked = f"SELECT place, id, n, price, at, note FROM {postgresql.table}"
        stored = {row[0]: (*row[1:4], _micros(row[4]), row[5]) for row in mysql.execute(asked)}
        places[MYSQL] = list(stored)
        for row in wide:
            expected = tuple(row[name] for name in ("id", "n", "price", "micros", "note"))
            if stored.get(row["place"], expected) != expected:
                changed.append(f"mysql has other values: {stored[row['place']]} for {expected}")
    return Found(
        {name: [one // OFFSET_BYTES for one in found] for name, found in places.items()},
        {row["place"] // OFFSET_BYTES: row for row in wide},
        [(row["queue_offset"], row["reason"]) for row in dead],
        changed,
    )


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
