"""Changes on Spark: from messages to rows that are inserted, updated and deleted, or to dead letters."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import Body, Changes, DeltaTarget, Events, Job, ParquetTarget, Run
from gantrymq.spark.pipelines.targets.parquet.tables import read_table
from tests.spark.fakes import FakeBroker
from tests.spark.log_server import LogServer
from tests.spark.pipelines.changes.histories import histories
from tests.spark.pipelines.changes.run import TOPIC, play
from tests.sql.databases import Place, database_server, postgresql

__all__ = ["database_server", "postgresql"]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUEUE = MessageQueue(TOPIC, "broker-a", 0)


@pytest.fixture
def server() -> Iterator[LogServer]:
    with LogServer(FakeBroker(answers_at_most=5000)) as running:
        running.broker.logs[QUEUE] = {}
        yield running


def send(server: LogServer, *bodies: dict[str, Any]) -> None:
    for body in bodies:
        server.broker.append(QUEUE, json.dumps(body).encode())


def process(spark: Any, job: Job) -> dict[str, int]:
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
    from gantrymq.spark.pipelines.run.running import Ending
    from gantrymq.spark.pipelines.run.running import process as run_here

    return run_here(spark, job, Ending(until_end=True), ProgressLines(None), OsDisk())


def in_delta(path: Path) -> list[dict[str, Any]]:
    deltalake = pytest.importorskip("deltalake")
    return sorted(deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])


def debezium(operation: str | None, row: dict[str, Any] | None, lsn: int | None, before: Any = None) -> dict[str, Any]:
    return {"op": operation, "before": before, "after": row, "source": {"lsn": lsn, "table": "users"}, "ts_ms": 1}


def debezium_job(where: Path, server: LogServer, **changes: Any) -> Job:
    """The recipe of docs/pipelines.md."""
    row = "struct<id bigint, name string>"
    parts: dict[str, Any] = {
        "name": "users",
        "checkpoint": f"{where}/checkpoint",
        "source": {"nameServers": server.address, "subscribe": TOPIC},
        "body": Body(schema=f"op string, before {row}, after {row}, source struct<lsn bigint>"),
        "events": Events(
            columns={"id": "coalesce(after.id, before.id)", "lsn": "source.lsn"}, valid="after.name != 'nobody'"
        ),
        "changes": Changes(key=("id",), order_by=("lsn",), operation="op", upsert=("c", "u", "r"), delete=("d",)),
        "targets": {"users": DeltaTarget(path=f"{where}/users", sql="SELECT id, after.name AS name, lsn FROM events")},
        "dead_letters": ParquetTarget(path=f"{where}/rejected"),
        "run": Run(interval="50ms"),
    }
    return Job(**{**parts, **changes})


def test_events_of_debezium(spark: Any, server: LogServer, tmp_path: Path) -> None:
    one, two = {"id": 1, "name": "one"}, {"id": 2, "name": "two"}
    send(
        server,
        debezium("r", one, 10),
        debezium("c", two, 11),
        debezium("u", {"id": 1, "name": "ONE"}, 13, one),
        debezium("u", {"id": 1, "name": "late"}, 12, one),
        debezium("d", None, 14, two),
        debezium("t", None, 15, one),
        debezium(None, one, 15),
        debezium("u", one, None),
        debezium("d", None, 15),
        debezium("u", {"id": 1, "name": "nobody"}, 16),
    )
    job = debezium_job(tmp_path, server)
    assert process(spark, job) == {"users": 1, "dead_letters": 5}
    assert in_delta(tmp_path / "users") == [{"id": 1, "name": "ONE", "lsn": 13}]
    rejected = read_table(spark, tmp_path / "rejected").orderBy("queue_offset").collect()
    assert [row["reason"] for row in rejected] == [
        "the column op, which is changes.operation, is 't', and must be c or u or r or d",
        "the column op, which is changes.operation, is null",
        "the column lsn, which is part of changes.order_by, is null",
        "the column id, which is part of changes.key, is null",
        "the condition does not hold: after.name != 'nobody'",
    ]
    send(server, debezium("u", {"id": 2, "name": "late"}, 13), debezium("d", None, 12, one), debezium("c", two, 15))
    assert process(spark, job) == {"users": 2, "dead_letters": 5}
    assert in_delta(tmp_path / "users") == [{"id": 1, "name": "ONE", "lsn": 13}, {"id": 2, "name": "two", "lsn": 15}]


def test_histories_by_chance(spark: Any, tmp_path: Path, postgresql: Place) -> None:
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    events = histories(chance, 120)
    assert play(spark, events, tmp_path, postgresql, batch=60, kills=2, chance=chance) == ([], 2)


def test_jobs_that_cannot_work_are_refused_before_they_run(spark: Any, server: LogServer, tmp_path: Path) -> None:
    from gantrymq.spark.pipelines.run import running
    from gantrymq.spark.pipelines.run.projections import columns_of

    def checked(**changes: Any) -> None:
        job = debezium_job(tmp_path, server, **changes)
        columns_of(spark, job, running.events_without_source(spark, job))

    def targets(sql: str) -> dict[str, Any]:
        return {"users": DeltaTarget(path=f"{tmp_path}/users", sql=sql)}

    checked()
    for wrong, message in (
        ({"targets": targets("SELECT id FROM events")}, "has no column lsn, by which changes find their row and know"),
        ({"targets": targets("SELECT id, cast(lsn AS string) lsn FROM events")}, "makes string of the column lsn"),
        ({"changes": Changes(key=("no",), order_by=("lsn",))}, r"changes.key: the events have no column no"),
        ({"changes": Changes(key=("source.lsn",), order_by=("lsn",))}, r'changes.key: .* id = "source.lsn"'),
        ({"changes": Changes(key=("source",), order_by=("lsn",))}, r"changes.key: the column source has the type str"),
        ({"events": Events(columns={"id": "coalesce("})}, r"events.columns.id: Spark refuses this expression"),
        ({"events": Events(columns={"id": "nothing"})}, r"events.columns.id: Spark refuses this expression: .*nothing"),
        ({"events": Events(columns={"op": "1"})}, r"events.columns.op: the body has a column with this name"),
    ):
        with pytest.raises(ConfigError, match=message):
            checked(**wrong)  # type: ignore[arg-type]
