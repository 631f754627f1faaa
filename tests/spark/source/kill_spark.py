"""Real Spark that reads a topic, killed with SIGKILL at each point between two steps of a batch, and started again.

    python -m tests.spark.source.kill_spark [POINT ...] [--master local[2,2]]

For each point it starts a broker and a stream of 4 batches in 2 tasks, which go to two tables under their numbers. It
kills the driver, its JVM and its workers (or a worker, or raises an error) in batch 2, starts the stream again with the
same checkpoint, and counts every row. It takes about half a minute for each point, so it is no part of the test suite;
``test_faults.py`` has the same points without Spark, and ``break_broker.py`` what happens to brokers and topics.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from gantrymq.spark.columns.rows import columns_of
from gantrymq.spark.data_source import RocketMQDataSource
from gantrymq.spark.options.settings import parse_options
from tests.kill.server import Server
from tests.spark.source.points import (
    BATCHES,
    COLUMNS,
    DRIVER,
    EXECUTOR,
    IN_SPARK,
    MARK,
    OPTIONS,
    POINT,
    ROWS,
    TOPIC,
    FaultyReader,
    FaultyTables,
    fill,
    make_topic,
)

WAIT_S = 300


class KilledSource(RocketMQDataSource):
    """The format ``rocketmq-killed``."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-killed"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return FaultyReader(parse_options(self.options).for_stream(), columns_of(schema))


def drive(name_servers: str, directory: Path, master: str) -> None:
    """The driver: read what is not in the tables yet, then end."""
    from gantrymq.spark import spark_session
    from gantrymq.spark.session.session import SHORT_JOBS

    os.environ[DRIVER] = str(os.getpgid(0))
    spark = spark_session("kill_spark", master=master, conf=SHORT_JOBS)
    spark.dataSource.register(KilledSource)
    tables = FaultyTables(directory)
    query = (
        spark.readStream.format("rocketmq-killed").options(**OPTIONS)
        .options(nameServers=name_servers, columns=",".join(COLUMNS)).load()
        .writeStream.foreachBatch(lambda rows, number: tables.add(number, rows.toArrow()))
        .option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()


def run_point(point: str, master: str) -> str:
    """What became of the rows."""
    with tempfile.TemporaryDirectory(prefix="kill-spark-", ignore_cleanup_errors=True) as root:
        directory = Path(root)
        server = Server(directory / "server", "ASYNC_FLUSH")
        server.start()
        try:
            make_topic(server.name_servers)
            rows = fill(server.name_servers, TOPIC, BATCHES * ROWS)
            environment = {**os.environ, POINT: point, MARK: str(directory / "mark")}
            command = [sys.executable, "-m", __spec__.name, "--drive", server.name_servers, root, "--master", master]
            codes = []
            for _ in range(2):
                with (directory / "driver.log").open("ab") as log:
                    run = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
                    codes.append(run.wait(WAIT_S))
            if not (directory / "mark").exists():
                return "the point was not reached\n" + (directory / "driver.log").read_text()[-3000:]
            verdict = ", ".join(sorted(FaultyTables(directory).verdicts(rows)))
            return f"{verdict} (exit codes {codes[0]}, {codes[1]})"
        finally:
            server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", nargs="*", help=f"which points; default: all of {', '.join(IN_SPARK)}")
    parser.add_argument(
        "--master", default="local[2,2]", help=f"the second number allows a task to be tried again; '{EXECUTOR}' needs "
        "a cluster such as local-cluster[2,1,1024]",
    )  # fmt: skip
    parser.add_argument("--drive", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.drive:
        # Pickled by name, and not with this module as __main__.
        from tests.spark.source import kill_spark

        kill_spark.drive(chosen.drive[0], Path(chosen.drive[1]), chosen.master)
        return
    for point in chosen.points or IN_SPARK:
        begin = time.monotonic()
        print(f"{point:30} {run_point(point, chosen.master)}   {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
