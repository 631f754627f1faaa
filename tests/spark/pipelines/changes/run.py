"""Send histories of changes by chance through a job with every target that applies changes, and compare the tables.

``python -m tests.spark.pipelines.changes.run --seed 1 --events 100000 --kills 20``. Exit status 1 when a table is not
as the last event of each key says.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import (
    Body,
    Changes,
    DeltaTarget,
    IcebergTarget,
    Job,
    ParquetTarget,
    PostgresqlTarget,
    Run,
)
from gantrymq.spark.pipelines.run.backfill import process_range
from gantrymq.spark.pipelines.run.batches import Batches
from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
from gantrymq.spark.pipelines.run.running import Ending, process
from tests.spark.fakes import START_MS, FakeBroker
from tests.spark.log_server import LogServer
from tests.spark.pipelines.changes.histories import Event, Row, differences, histories, rows_of
from tests.sql.database_servers import PostgreSQL
from tests.sql.databases import Place

TOPIC, QUEUES, SHOWN = "changes", 3, 20
NARROW = "region string, id int, op string, version bigint, step string, value int"
WIDE = "region string, id bigint, op string, version bigint, step string, value bigint, note string"
COLUMNS = ("region", "id", "version", "step", "value", "note")
SOME = " WHERE value % 5 != 0"
"""A target may leave rows out: then a row comes and goes."""


class Killed(Exception):
    """The job ends here, as if its process were killed."""


def make_tables(database: Place) -> None:
    """In PostgreSQL an owner makes them."""
    columns = "region text, id int, version bigint, step text, value int NOT NULL, PRIMARY KEY (id, region)"
    database.execute(f"CREATE TABLE every_row ({columns})", f"CREATE TABLE some_rows ({columns})")


def job_at(where: Path, name_servers: str, database: Place, batch: int, schema: str) -> Job:
    """The job with one of the two schemas."""
    catalog = {"type": "sql", "uri": f"sqlite:///{where}/catalog.db", "warehouse": f"file://{where}/lake"}
    key = ("region", "id")
    # The same query with both schemas: with another one, what the first has left out could come back.
    every = "SELECT * EXCEPT (op) FROM events"
    some = every + SOME
    return Job(
        name="changes",
        checkpoint=f"{where}/checkpoint",
        source={"nameServers": name_servers, "subscribe": TOPIC},
        body=Body(schema=schema),
        changes=Changes(key=key, order_by=("version", "step"), operation="op", upsert=("c", "u"), delete=("d",)),
        targets={
            "delta": DeltaTarget(path=f"{where}/delta", sql=every),
            "some_delta": DeltaTarget(path=f"{where}/some", sql=some),
            "iceberg": IcebergTarget(table="a.every", catalog=catalog, sql=every),
            "some_iceberg": IcebergTarget(table="a.some", catalog=catalog, sql=some),
            "postgresql": PostgresqlTarget(dsn=database.dsn, table="every_row", key=key, sql=every, grow=True),
            "some_postgresql": PostgresqlTarget(dsn=database.dsn, table="some_rows", key=key, sql=some, grow=True),
        },
        dead_letters=ParquetTarget(path=f"{where}/rejected"),
        run=Run(max_rows=batch),
    )


def found_in(job: Job, database: Place) -> dict[str, list[Row]]:
    """All rows of each table."""
    from deltalake import DeltaTable
    from pyiceberg.catalog import load_catalog

    found: dict[str, list[Row]] = {}
    for name, target in job.targets.items():
        if isinstance(target, PostgresqlTarget):
            found[name] = [tuple(row) for row in database.execute(f"SELECT {', '.join(COLUMNS)} FROM {target.table}")]
            continue
        if isinstance(target, DeltaTarget):
            table = DeltaTable(target.path).to_pyarrow_table()
        elif isinstance(target, IcebergTarget):
            table = load_catalog("gantry", **target.catalog).load_table(target.table).scan().to_arrow()
        found[name] = list(zip(*(table[column].to_pylist() for column in COLUMNS), strict=True))
    return found


def play(
    spark: Any, events: Sequence[Event], where: Path, database: Place, *, batch: int, kills: int, chance: random.Random
) -> tuple[list[str], int]:
    """What is wrong at the end, and how often the job was ended. A stream reads the first half, and with the grown
    schema the second one. Then a backfill goes over everything, which must change nothing."""
    queues = [MessageQueue(TOPIC, "broker-a", number) for number in range(QUEUES)]
    make_tables(database)
    half = len(events) // 2
    wrong: list[str] = []
    with LogServer(FakeBroker(answers_at_most=5000)) as server, crashing(chance, kills) as killed:
        for queue in queues:
            server.broker.logs[queue] = {}

        def finish(some: Sequence[Event], schema: str, run: Callable[[Job], object], read: Sequence[Event]) -> None:
            for event in some:
                server.broker.append(queues[hash(event.key[1]) % QUEUES], json.dumps(event.body).encode())
            job = job_at(where, server.address, database, batch, schema)
            while not _finished(partial(run, job)):
                pass
            if read:
                wrong.extend(_wrong(read, found_in(job, database)))

        def stream(job: Job) -> object:
            return process(spark, job, Ending(until_end=True), ProgressLines(None), OsDisk())

        def backfill(job: Job) -> object:
            return process_range(spark, job, START_MS, START_MS + len(events), batch, ProgressLines(None), OsDisk())

        finish(events[:half], NARROW, stream, ())
        finish(events[half:], WIDE, stream, events)
        finish((), WIDE, backfill, events)
    return wrong, killed()


def _wrong(events: Sequence[Event], tables: dict[str, list[Row]]) -> list[str]:
    every = rows_of(events)
    some = {row for row in every if row[4] % 5}
    return [
        f"{name}: {line}"
        for name, rows in tables.items()
        for line in differences(some if name.startswith("some") else every, rows)
    ]


def _finished(run: Callable[[], object]) -> bool:
    try:
        run()
    except Exception as error:
        if "Killed" not in f"{type(error)} {error}":
            raise
        return False
    return True


@contextmanager
def crashing(chance: random.Random, kills: int) -> Iterator[Callable[[], int]]:
    """The job ends so often at a step of a batch: before a target, behind it, or when its deletes are remembered."""
    from gantrymq.spark.pipelines.targets.delta.changes import DeltaDeletes
    from gantrymq.spark.pipelines.targets.iceberg.changes import IcebergDeletes

    done = 0

    def perhaps() -> None:
        nonlocal done
        if done < kills and chance.random() < 0.15:
            done += 1
            raise Killed

    def with_kills(step: Any) -> Any:
        def killed(*rest: Any) -> Any:
            perhaps()
            result = step(*rest)
            perhaps()
            return result

        return killed

    steps = ((Batches, "_commit"), (DeltaDeletes, "remember"), (IcebergDeletes, "remember"))
    before = [(owner, name, getattr(owner, name)) for owner, name in steps]
    try:
        for owner, name, step in before:
            setattr(owner, name, with_kills(step))
        yield lambda: done
    finally:
        for owner, name, step in before:
            setattr(owner, name, step)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--batch", type=int, default=0, help="the most messages in a batch; default: a tenth of them")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    from gantrymq.spark import spark_session
    from gantrymq.spark.session.session import SHORT_JOBS

    root = Path(tempfile.mkdtemp(prefix="gantry-changes-"))
    server = PostgreSQL(root / "postgresql")
    spark = spark_session("changes", master="local[2]", conf=SHORT_JOBS)
    spark.sparkContext.setLogLevel("OFF")
    chance = random.Random(given.seed)
    events = histories(chance, given.events)
    begin = time.monotonic()
    try:
        server.start()
        lines, killed = play(
            spark, events, root, Place.at(server),
            batch=given.batch or max(given.events // 10, 1), kills=given.kills, chance=chance,
        )  # fmt: skip
    finally:
        spark.stop()
        server.kill()
        shutil.rmtree(root, ignore_errors=True)
    print(*lines[:SHOWN], sep="\n")
    rows = len(rows_of(events))
    print(f"{len(events)} events, {rows} rows at the end, {killed} kills, {len(lines)} differences")
    print(f"{time.monotonic() - begin:.0f} s", flush=True)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
