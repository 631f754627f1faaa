"""The job ``order-paid``: for each paid order it writes a shipping record, a change of points and a cleared cart.

It is the job file ``order_paid.toml`` beside this module, with the directories of the command line. Each table gets
each order exactly once, whatever the order of the messages, however often a producer repeats one within the horizon,
and wherever this job is killed.

    python -m gantrymq.spark.pipelines.ready_made.order_paid --name-servers 127.0.0.1:9876 --topic orders-paid \\
        --out tables --checkpoint checkpoint [--stop-file stop] [--progress progress.jsonl]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gantrymq.errors import GantryError
from gantrymq.runtime.disk import Disk
from gantrymq.spark.pipelines.describe.addresses import absolute_place
from gantrymq.spark.pipelines.describe.job_file import read_job
from gantrymq.spark.pipelines.job import Job, Run
from gantrymq.spark.pipelines.run import running
from gantrymq.spark.pipelines.run.progress_lines import Listener, ProgressLines, ignore
from gantrymq.spark.pipelines.run.running import Ending

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENT_SCHEMA = "order_id string, user_id string, amount_cents bigint, paid_at_ms bigint"
FILE = str(Path(__file__).with_name("order_paid.toml"))
ORDER_TABLES = ("shipping", "points", "cart")
"""These have one row per order. The table ``rejected`` has the messages that are not order-paid events."""


@dataclass(frozen=True, slots=True)
class OrderPaidJob:
    """The settings of a run."""

    name_servers: str
    topic: str
    out: str
    """Directory of the tables."""
    checkpoint: str
    """Directory of Spark's checkpoint. Together with ``out`` it contains the whole state of this job."""
    stop_file: str | None = None
    """The job ends when this file exists and everything that was in the topic at that moment is in the tables."""
    until_end: bool = False
    """Process the messages that are in the topic at the start, then stop."""
    interval_ms: int = 500
    """The shortest time between the starts of two batches."""
    progress: str | None = None
    """A file to which the progress is appended as JSON lines."""
    starting: str = "earliest"
    """Where a job without a checkpoint begins."""
    horizon: str = "24h"
    """A repeated order is recognised for this long after the first one. Only time in which the job runs counts."""
    max_offsets_per_trigger: int = 200_000
    """The most messages in a batch. The driver has one batch in memory, about 100 bytes for each message."""
    read_timeout: str = "120s"
    run: Run = field(default_factory=Run)
    """Where Spark runs; ``interval_ms`` and ``max_offsets_per_trigger`` replace what it says of them."""

    @property
    def job(self) -> Job:
        """The job of ``order_paid.toml`` with these settings."""
        where, checkpoint = absolute_place(self.out), absolute_place(self.checkpoint)
        changes = [
            f"source.nameServers={self.name_servers}", f"source.subscribe={self.topic}",
            f"source.startingOffsets={self.starting}", f"source.readTimeout={self.read_timeout}",
            f"checkpoint={checkpoint}", f"events.horizon={self.horizon}", f"dead_letters.path={where}/rejected",
            *(f"targets.{name}.path={where}/{name}" for name in ORDER_TABLES),
        ]  # fmt: skip
        run = msgspec.structs.replace(self.run, interval=f"{self.interval_ms}ms", max_rows=self.max_offsets_per_trigger)
        return msgspec.structs.replace(read_job(FILE, changes), run=run)


def run(job: OrderPaidJob, listener: Listener = ignore) -> dict[str, int]:
    """Run the job to its end. Returns the number of rows of each table. Raises GantryError or Spark's error on failure.

    The job may be killed at any moment; run it again with the same directories.
    """
    return running.run(job.job, Ending(job.stop_file, job.until_end), listener, job.progress)


def process_topic(spark: SparkSession, job: OrderPaidJob, progress: ProgressLines, disk: Disk) -> dict[str, int]:
    """Run the job in an existing Spark session."""
    return running.process(spark, job.job, Ending(job.stop_file, job.until_end), progress, disk)


def _arguments(argv: Sequence[str] | None) -> OrderPaidJob:
    parser = argparse.ArgumentParser(prog="order_paid", description="Turn paid orders into shipping, points and cart.")
    parser.add_argument("--name-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--out", required=True, help="directory of the tables")
    parser.add_argument("--checkpoint", required=True, help="directory of Spark's checkpoint")
    parser.add_argument(
        "--stop-file", help="stop when this file exists and everything that was in the topic at that time is processed"
    )
    parser.add_argument(
        "--until-end", action="store_true", help="process the messages that are in the topic now, then stop"
    )
    parser.add_argument("--interval-ms", type=int, default=500, help="shortest time between two batches")
    parser.add_argument("--progress", help="file to append JSON lines to")
    parser.add_argument("--starting", default="earliest", choices=["earliest", "latest"])
    parser.add_argument("--horizon", default="24h", help="how long a repeated order is recognised, for example 24h")
    parser.add_argument("--read-timeout", default="120s", help="how long to try again while brokers are unreachable")
    add_spark_options(parser)
    given = vars(parser.parse_args(argv))
    run = Run(master=given.pop("master"), python=given.pop("python"), spark=dict(given.pop("conf")))
    return OrderPaidJob(**given, run=run)


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Where Spark runs."""
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--python", help="the Python of the executors, by its path there and here")
    parser.add_argument("--conf", action="append", default=[], type=key_and_value, help="Spark conf, key=value")


def key_and_value(text: str) -> tuple[str, str]:
    """The parts of ``key=value``."""
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form spark.key=value")
    return key, value


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job, and write events to standard output as JSON lines. Exit status 0: the end was reached, 1: the job
    failed."""
    try:
        run(_arguments(argv), lambda event: _print_line(msgspec.json.encode(event)))
    except GantryError as error:
        _print_line(msgspec.json.encode({"event": "error", "error": str(error)}))
        return 1
    return 0


def _print_line(line: bytes) -> None:
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
