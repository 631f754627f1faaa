"""A job goes on with its checkpoint after its schema has grown, and so do its tables."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gantrymq.spark.pipelines.job import Body, DeltaTarget, Events, Job, ParquetTarget, Run
from gantrymq.spark.pipelines.targets.growth import TableDiffers
from gantrymq.spark.pipelines.targets.parquet.tables import read_table
from tests.spark.fakes import FakeBroker
from tests.spark.log_server import LogServer
from tests.spark.pipelines.run.test_running import QUEUE, TOPIC, process

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NARROW = "id int, n smallint, price decimal(5,2), ratio float, day date, s struct<x: int>"
WIDE = (
    "id bigint, n int, price decimal(12,4), ratio double, day timestamp_ntz, s struct<x: bigint, y: string>, "
    "note string"
)
LARGE = 1 << 40


@pytest.fixture
def server() -> Iterator[LogServer]:
    with LogServer(FakeBroker(answers_at_most=5000)) as running:
        running.broker.logs[QUEUE] = {}
        yield running


def send(server: LogServer, *bodies: dict[str, Any]) -> None:
    for body in bodies:
        server.broker.append(QUEUE, json.dumps(body).encode())


def job_at(where: Path, server: LogServer, schema: str, checkpoint: str = "checkpoint") -> Job:
    pytest.importorskip("deltalake")
    return Job(
        name="orders",
        checkpoint=f"{where}/{checkpoint}",
        source={"nameServers": server.address, "subscribe": TOPIC},
        body=Body(schema=schema),
        events=Events(key=("id",)),
        targets={
            "files": ParquetTarget(path=f"{where}/files"),
            "days": ParquetTarget(
                path=f"{where}/days", sql="SELECT *, id % 2 AS part FROM events", partition_by=("part",)
            ),
            "delta": DeltaTarget(path=f"{where}/delta", sql="SELECT id, n, price, ratio, day, s.x FROM events"),
        },
        dead_letters=ParquetTarget(path=f"{where}/rejected"),
        run=Run(interval="50ms"),
    )


def test_a_job_goes_on_when_its_schema_has_grown(spark: Any, server: LogServer, tmp_path: Path) -> None:
    first = {"id": 1, "n": 7, "price": 1.25, "ratio": 0.5, "day": "2026-01-31", "s": {"x": 1}}
    send(server, first, {**first, "id": LARGE})
    assert process(spark, job_at(tmp_path, server, NARROW)) == {"files": 1, "days": 1, "delta": 1, "dead_letters": 1}
    second = {
        "id": LARGE + 2, "n": 70_000, "price": 12345678.1234, "ratio": 1e300, "day": "2026-01-31T12:00:00",
        "s": {"x": LARGE, "y": "why"}, "note": "new",
    }  # fmt: skip
    repeat = {**second, "id": 1}
    send(server, second, repeat)
    wide = job_at(tmp_path, server, WIDE)
    assert process(spark, wide) == {"files": 2, "days": 2, "delta": 2, "dead_letters": 1}
    old, new = (row.asDict(recursive=True) for row in read_table(spark, tmp_path / "files").orderBy("id").collect())
    midnight = datetime.datetime(2026, 1, 31)
    assert old == {
        "id": 1, "n": 7, "price": Decimal("1.2500"), "ratio": 0.5, "day": midnight, "s": {"x": 1, "y": None},
        "note": None,
    }  # fmt: skip
    assert new == {**second, "price": Decimal("12345678.1234"), "day": midnight + datetime.timedelta(hours=12)}
    notes = read_table(spark, tmp_path / "days").orderBy("id").select("note", "part").collect()
    assert [tuple(row) for row in notes] == [(None, 1), ("new", 0)]
    # Rows of the time before are found by their keys, also in files with the narrow type.
    again = job_at(tmp_path, server, WIDE, checkpoint="another")
    late = {**second, "id": LARGE + 4, "day": "2026-01-31T00:00:00"}
    send(server, late)
    assert process(spark, again) == {"files": 3, "days": 3, "delta": 3, "dead_letters": 3}
    with pytest.raises(TableDiffers, match="the column id is bigint in the table and int in the job, which is narrow"):
        process(spark, job_at(tmp_path, server, NARROW))
