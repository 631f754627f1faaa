"""One job with every kind of target, whose driver is killed again and again on real Spark, by command.

    python -m tests.spark.pipelines.kill_job [--events 20000] [--kills 5] [--seed N]
        [--master 'local[2]' | standalone | connect] [--jars /path/of/jars]

A topic gets events, and then a tenth of them once more with another amount. The job writes them to Parquet, Delta,
Iceberg, PostgreSQL and MariaDB (where `mariadbd` is installed), and to Parquet and Delta in an object store. `gantry
pipeline run` is killed with SIGKILL, with its JVM and its workers, at a random moment after a batch, and started again.
At the end each table must have each key once, with the amount of its first event. Then the checkpoint is deleted and
the job run once more, and at last a backfill goes over the whole time: neither may change anything.

``standalone`` is a cluster with two workers. With ``connect`` the server of Spark Connect is killed with its client.
``--jars``: a directory with the jars of hadoop-aws. The checkpoint is in the object store then.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gantrymq import Message, Producer
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.targets.object_stores import arrow_files, disk_of
from tests.kill.server import Server
from tests.spark.clusters.connect_server import ConnectServer
from tests.spark.clusters.pipelines import Place as SparkPlace
from tests.spark.clusters.pipelines import place_of
from tests.spark.pipelines.s3_server import BUCKET, s3_server
from tests.spark.source.points import make_topic
from tests.sql.database_servers import MariaDB, PostgreSQL, lacking
from tests.sql.databases import Place

TOPIC, QUEUES, REPEAT_EVERY, BATCHES = "Orders", 4, 10, 20
LATER = 1_000_000
"""Added to the amount of a repeat."""
WAIT_S = 900.0
JOB = """\
name = "orders"
checkpoint = "{checkpoint}"
[source]
nameServers = "{name_servers}"
subscribe = "{topic}"
[body]
schema = "id string, amount bigint"
[events]
key = ["id"]
[targets.parquet]
type = "parquet"
path = "parquet"
[targets.delta]
type = "delta"
path = "delta"
[targets.delta_in_store]
type = "delta"
path = "s3://{bucket}/orders"
[targets.parquet_in_store]
type = "parquet"
path = "s3://{bucket}/parquet"
[targets.iceberg]
type = "iceberg"
table = "shop.orders"
catalog = {{ type = "sql", uri = "sqlite:///{root}/catalog.db", warehouse = "file://{root}/lake" }}
[targets.postgresql]
type = "postgresql"
dsn = "{dsn}"
table = "orders"
key = ["id"]
{mysql}[dead_letters]
type = "parquet"
path = "rejected"
{run}"""
IN_MYSQL = """\
[targets.mysql]
type = "mysql"
url = "mysql://{place.user}@127.0.0.1:{place.port}/{place.name}"
table = "orders"
key = ["id"]
"""


def send(name_servers: str, count: int) -> None:
    """Events in several queues, each repeat in the queue of its first event and behind all first events."""
    numbers: Iterable[tuple[int, int]] = [(number, number) for number in range(count)]
    repeats = [(number, number + LATER) for number in range(0, count, REPEAT_EVERY)]
    with Producer("fill", name_servers=name_servers) as producer:
        for some in (numbers, repeats):
            for at, queue in enumerate(sorted(producer.queues(TOPIC))):
                bodies = [
                    json.dumps({"id": f"o-{one}", "amount": amount}) for one, amount in some if one % QUEUES == at
                ]
                producer.send_batches([Message(TOPIC, body) for body in bodies], queue)


class Runs:
    """Runs of ``gantry pipeline``. ``server``: of Spark Connect, which is the driver then."""

    def __init__(
        self, root: Path, environment: Mapping[str, str], checkpoint: str, server: ConnectServer | None
    ) -> None:
        self._root = root
        self._environment = {**os.environ, **environment}
        self._checkpoint = checkpoint
        self._server = server

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "gantrymq.cli.main", "pipeline", *arguments]
        with (self._root / "job.log").open("ab") as log:
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, start_new_session=True)

    def finish(self, *arguments: str) -> None:
        code = self.start(*arguments).wait(WAIT_S)
        if code:
            raise SystemExit(f"the job ended with status {code}:\n" + (self._root / "job.log").read_text()[-3000:])

    def kill_after_a_batch(self, pause_s: float) -> bool:
        """Whether the job still ran then."""
        before = self._batches()
        running = self.start("run", str(self._root / "job.toml"), "--until-end")
        end = time.monotonic() + WAIT_S
        while running.poll() is None and self._batches() <= before:
            assert time.monotonic() < end, "no batch was written"
            time.sleep(0.1)
        time.sleep(pause_s)
        alive = running.poll() is None
        if alive:
            os.killpg(running.pid, signal.SIGKILL)
            if self._server is not None:
                self._server.kill_and_start()
        running.wait(WAIT_S)
        return alive

    def _batches(self) -> int:
        """The number of the last batch that Spark has finished."""
        names = disk_of(self._checkpoint, OsDisk()).list(f"{self._checkpoint}/commits")
        return max((int(name) for name in names if name.isdigit()), default=-1)


def rows_of(place: Scene) -> dict[str, list[tuple[str, int]]]:
    """All rows of each table."""
    import pyarrow.parquet as pq
    from deltalake import DeltaTable
    from pyiceberg.catalog import load_catalog

    root, storage = place.root, place.storage
    catalog = load_catalog("gantry", type="sql", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/lake")
    tables: dict[str, list[Any]] = {
        "parquet": [pq.read_table(f"{root}/parquet")],
        "delta": [DeltaTable(f"{root}/delta").to_pyarrow_table()],
        "parquet_in_store": [pq.read_table(f"s3://{BUCKET}/parquet")],
        "delta_in_store": [DeltaTable(f"s3://{BUCKET}/orders", storage_options=dict(storage)).to_pyarrow_table()],
        "iceberg": [catalog.load_table("shop.orders").scan().to_arrow()],
    }
    found = {
        name: [row for one in parts for row in zip(one["id"].to_pylist(), one["amount"].to_pylist(), strict=True)]
        for name, parts in tables.items()
    }
    asked = "SELECT id, amount FROM orders"
    found["postgresql"] = [(row[0], row[1]) for row in place.database.execute(asked)]
    if place.mysql is not None:
        found["mysql"] = [(row[0].decode(), row[1]) for row in place.mysql.execute(asked)]
    return found


def wrong(tables: Mapping[str, list[tuple[str, int]]], count: int) -> int:
    """The number of tables with something wrong, which is printed."""
    expected = sum(range(count))
    bad = 0
    for name, rows in tables.items():
        keys, total = len({key for key, _ in rows}), sum(amount for _, amount in rows)
        good = len(rows) == keys == count and total == expected
        bad += not good
        print(f"  {name:16} {len(rows):9} rows {keys:9} keys, sum {total}{'' if good else '   WRONG'}", flush=True)
    return bad


@dataclass(frozen=True)
class Scene:
    """Everything that a job under kills needs, and it runs."""

    root: Path
    name_servers: str
    database: Place
    mysql: Place | None
    storage: Mapping[str, str]
    """How programs reach the object store, as variables of the environment."""
    spark: SparkPlace
    connect: ConnectServer | None
    """The server that is killed with its client."""

    def run_section(self, max_rows: int) -> str:
        """The table ``run`` of the job file."""
        lines = []
        for key, value in self.spark.changes().items():
            name = re.sub(r"^spark\.(.*)", r'spark."\1"', key.removeprefix("run."))
            lines.append(f'{name} = "{value}"')
        return "\n".join(["[run]", f"max_rows = {max_rows}", 'interval = "50ms"', *lines, ""])


@contextmanager
def scene(master: str, jars: Path | None) -> Iterator[Scene]:
    """``master``: local[N], standalone or connect. ``jars``: more of them for Spark."""
    with tempfile.TemporaryDirectory(prefix="kill-job-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        server, database = Server(root / "server", "ASYNC_FLUSH"), PostgreSQL(root / "db")
        mysql = None if lacking("mariadb") else MariaDB(root / "mariadb")
        try:
            server.start()
            database.start()
            if mysql is not None:
                mysql.start()
            with s3_server(root / "s3.log") as storage, ExitStack() as stack:
                # pyarrow reads them here, a server of Spark Connect inherits them, and executors get them by settings.
                os.environ.update(storage)
                connect = stack.enter_context(ConnectServer(root)) if master == "connect" else None
                place = SparkPlace(connect.master) if connect else stack.enter_context(place_of(master, root, None))
                conf = {f"spark.executorEnv.{name}": value for name, value in storage.items()}
                if jars is not None:
                    conf["spark.jars"] = ",".join(map(str, sorted(jars.glob("*.jar"))))
                place = replace(place, conf={**place.conf, **({} if connect else conf)})
                other = None if mysql is None else Place.at(mysql, "shop")
                yield Scene(root, server.name_servers, Place.at(database, "shop"), other, storage, place, connect)
        finally:
            server.kill()
            database.kill()
            if mysql is not None:
                mysql.kill()


def chosen_options(about: str | None, *, jars: bool) -> argparse.Namespace:
    """The command line of a job under kills. Prints the seed."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--master", default="local[2]", help="local[N], standalone or connect")
    if jars:
        parser.add_argument(
            "--jars", type=Path, help="directory with hadoop-aws: the checkpoint is in the object store"
        )
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    return chosen


def batch_of(chosen: argparse.Namespace) -> int:
    """So small that there are more batches than kills."""
    events, kills = int(chosen.events), int(chosen.kills)
    return max(events // max(BATCHES, 2 * kills), 1)


def main() -> int:
    chosen = chosen_options(__doc__, jars=True)
    with scene(chosen.master, chosen.jars) as place:
        return 1 if run(place, random.Random(chosen.seed), chosen) else 0


def run(place: Scene, rng: random.Random, chosen: argparse.Namespace) -> int:
    """How many tables were wrong."""
    root, name_servers = place.root, place.name_servers
    place.database.execute("CREATE TABLE orders (id text PRIMARY KEY, amount bigint)")
    if place.mysql is not None:
        place.mysql.execute("CREATE TABLE orders (id varbinary(20) PRIMARY KEY, amount bigint)")
    make_topic(name_servers, TOPIC, QUEUES)
    begin = datetime.now(UTC).isoformat()
    send(name_servers, chosen.events)
    checkpoint = f"s3a://{BUCKET}/checkpoint" if chosen.jars else f"{root}/checkpoint"
    (root / "job.toml").write_text(
        JOB.format(
            name_servers=name_servers, topic=TOPIC, bucket=BUCKET, root=root, dsn=place.database.dsn,
            mysql="" if place.mysql is None else IN_MYSQL.format(place=place.mysql),
            checkpoint=checkpoint, run=place.run_section(batch_of(chosen)),
        )
    )  # fmt: skip
    runs, file, killed = Runs(root, place.storage, checkpoint, place.connect), str(root / "job.toml"), 0
    for _ in range(chosen.kills):
        killed += runs.kill_after_a_batch(rng.uniform(0, 2))
    runs.finish("run", file, "--until-end")
    print(f"killed {killed} times, then run to the end:", flush=True)
    bad = wrong(rows_of(place), chosen.events)
    files, where = arrow_files(checkpoint)
    files.delete_dir(where)
    runs.finish("run", file, "--until-end")
    print("without its checkpoint, from the start:", flush=True)
    bad += wrong(rows_of(place), chosen.events)
    end = datetime.now(UTC).isoformat()
    time.sleep(61)  # a range must have been over for a minute
    runs.finish("backfill", file, "--from", begin, "--to", end, "--slice", "1h")
    print("backfill over everything:", flush=True)
    bad += wrong(rows_of(place), chosen.events)
    return bad


if __name__ == "__main__":
    sys.exit(main())
