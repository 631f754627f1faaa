"""A job with changes whose driver is killed again and again on real Spark, by command.

    python -m tests.spark.pipelines.changes.kill_job [--events 20000] [--kills 5] [--seed N]
        [--master 'local[2]' | standalone | connect]

A topic gets histories by chance. `gantry pipeline run` brings them to Delta, Iceberg and PostgreSQL, and to Delta in an
object store. It is killed with SIGKILL, with its JVM and its workers, at a random moment after a batch, and started
again. At the end each table must be as the last events say. Then the checkpoint is deleted and the job run once more,
which must change nothing.

``standalone`` is a cluster with two workers. With ``connect`` the server of Spark Connect is killed with its client.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gantrymq import Message, Producer
from tests.spark.pipelines.changes.histories import Event, Row, differences, histories, rows_of
from tests.spark.pipelines.changes.run import COLUMNS, TOPIC, WIDE, make_tables
from tests.spark.pipelines.kill_job import QUEUES, Runs, Scene, batch_of, chosen_options, scene
from tests.spark.pipelines.s3_server import BUCKET
from tests.spark.source.points import make_topic
from tests.sql.databases import Place

JOB = """\
name = "changes"
checkpoint = "checkpoint"
[source]
nameServers = "{name_servers}"
subscribe = "{topic}"
[body]
schema = "{schema}"
[changes]
key = ["region", "id"]
order_by = ["version", "step"]
operation = "op"
upsert = ["c", "u"]
delete = ["d"]
[targets.delta]
type = "delta"
path = "delta"
sql = "{sql}"
[targets.object_store]
type = "delta"
path = "s3://{bucket}/changes"
sql = "{sql}"
[targets.iceberg]
type = "iceberg"
table = "shop.changes"
catalog = {{ type = "sql", uri = "sqlite:///{root}/catalog.db", warehouse = "file://{root}/lake" }}
sql = "{sql}"
[targets.postgresql]
type = "postgresql"
dsn = "{dsn}"
table = "every_row"
key = ["region", "id"]
grow = true
sql = "{sql}"
[dead_letters]
type = "parquet"
path = "rejected"
{run}"""


def send(name_servers: str, events: Sequence[Event]) -> None:
    """All events of a key into one queue."""
    with Producer("fill", name_servers=name_servers) as producer:
        for at, queue in enumerate(sorted(producer.queues(TOPIC))):
            bodies = [json.dumps(event.body) for event in events if event.key[1] % QUEUES == at]
            producer.send_batches([Message(TOPIC, body) for body in bodies], queue)


def found_in(root: Path, place: Place, storage: Mapping[str, str]) -> dict[str, list[Row]]:
    """All rows of each table."""
    from deltalake import DeltaTable
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("gantry", type="sql", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/lake")
    tables = {
        "delta": DeltaTable(f"{root}/delta").to_pyarrow_table(),
        "object_store": DeltaTable(f"s3://{BUCKET}/changes", storage_options=dict(storage)).to_pyarrow_table(),
        "iceberg": catalog.load_table("shop.changes").scan().to_arrow(),
    }
    found: dict[str, list[Row]] = {
        name: list(zip(*(table[column].to_pylist() for column in COLUMNS), strict=True))
        for name, table in tables.items()
    }
    rows = place.execute(f"SELECT {', '.join(COLUMNS)} FROM every_row")
    return {**found, "postgresql": [tuple(row) for row in rows]}


def wrong(tables: Mapping[str, list[Row]], events: Sequence[Event]) -> int:
    """The number of differences, which are counted for each table."""
    bad = 0
    for name, rows in tables.items():
        lines = differences(rows_of(events), rows)
        bad += len(lines)
        print(f"  {name:13} {len(rows):9} rows, {len(lines)} differences", *lines[:5], sep="\n    ", flush=True)
    return bad


def run(place: Scene, rng: random.Random, chosen: argparse.Namespace) -> int:
    """How many differences there were."""
    root, name_servers, storage = place.root, place.name_servers, place.storage
    make_tables(place.database)
    make_topic(name_servers, TOPIC, QUEUES)
    events = histories(rng, chosen.events)
    send(name_servers, events)
    (root / "job.toml").write_text(
        JOB.format(
            name_servers=name_servers, topic=TOPIC, bucket=BUCKET, root=root, dsn=place.database.dsn, schema=WIDE,
            sql=f"SELECT {', '.join(COLUMNS)} FROM events", run=place.run_section(batch_of(chosen)),
        )
    )  # fmt: skip
    runs, file = Runs(root, storage, f"{root}/checkpoint", place.connect), str(root / "job.toml")
    killed = sum(runs.kill_after_a_batch(rng.uniform(0, 2)) for _ in range(chosen.kills))
    runs.finish("run", file, "--until-end")
    print(f"{len(events)} events, killed {killed} times, then run to the end:", flush=True)
    bad = wrong(found_in(root, place.database, storage), events)
    shutil.rmtree(root / "checkpoint")
    runs.finish("run", file, "--until-end")
    print("without its checkpoint, from the start:", flush=True)
    return bad + wrong(found_in(root, place.database, storage), events)


def main() -> int:
    chosen = chosen_options(__doc__, jars=False)
    with scene(chosen.master, None) as place:
        return 1 if run(place, random.Random(chosen.seed), chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
