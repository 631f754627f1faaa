"""The memory of a pipeline's driver while more and more rows go by: does it stay flat?

    python -m benchmarks.pipeline_memory [--rows 1000000,10000000] [--batch 200000] [--driver-memory 1g]

Fills a topic with the largest number of rows, and runs one job with a Parquet, a Delta and an Iceberg table to its end,
on `local[2]`. Prints, when so many rows are in the tables, how much memory the driver's Python process has, the most it
had until then, what Spark's JVM has, whose heap is limited, and what of this heap is in use behind a garbage
collection. In the end each table must have each row once. Broker, Spark and its Python workers share this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import processes
from benchmarks.order_paid import TOPIC, fill
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import Body, DeltaTarget, Events, IcebergTarget, Job, ParquetTarget, Run
from gantrymq.spark.pipelines.ready_made.order_paid import EVENT_SCHEMA
from gantrymq.spark.pipelines.run import job_session, running
from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
from gantrymq.spark.pipelines.run.running import Ending

GROWTH_GOAL: Final = 1.25
"""The memory behind the last rows is at most so many times that behind the first number of rows."""


def memory_mb(pid: int | str, name: str) -> float:
    """``VmRSS`` or ``VmHWM`` of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"there is no {name} of process {pid}")


def heap_mb(spark: Any) -> float:
    """What objects of the JVM need, behind a garbage collection."""
    java = spark.sparkContext._jvm.java.lang
    java.System.gc()
    return float(java.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()) / (1 << 20)


def job_of(name_servers: str, directory: Path, batch: int, driver_memory: str) -> Job:
    catalog = {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/lake"}
    return Job(
        name="memory",
        checkpoint=f"{directory}/checkpoint",
        source={"nameServers": name_servers, "subscribe": TOPIC},
        body=Body(schema=EVENT_SCHEMA),
        events=Events(key=("order_id",)),
        targets={
            "parquet": ParquetTarget(path=f"{directory}/parquet"),
            "delta": DeltaTarget(path=f"{directory}/delta"),
            "iceberg": IcebergTarget(table="shop.orders", catalog=catalog),
        },
        dead_letters=ParquetTarget(path=f"{directory}/rejected"),
        run=Run(master="local[2]", max_rows=batch, driver_memory=driver_memory),
    )


def measure(job: Job, counts: list[int]) -> list[float]:
    """The memory of this process behind each of these numbers of rows; prints it. Raises SystemExit when a table has
    not each row once."""
    seen, found, begin = 0, list[float](), time.monotonic()

    with job_session.session("memory", job.run) as spark:
        jvm = spark.sparkContext._gateway.proc.pid

        def note(event: Mapping[str, Any]) -> None:
            nonlocal seen
            if event["event"] != "batch":
                return
            seen += event["rows"]["parquet"]
            if len(found) < len(counts) and seen >= counts[len(found)]:
                found.append(tell(f"{seen:,} rows"))

        def tell(what: str) -> float:
            now = memory_mb("self", "VmRSS")
            print(
                f"{what}: the driver's Python has {now:.0f} MB, at most {memory_mb('self', 'VmHWM'):.0f} MB; "
                f"its JVM {memory_mb(jvm, 'VmRSS'):.0f} MB, of its heap {heap_mb(spark):.0f} MB; "
                f"{time.monotonic() - begin:.0f} s",
                flush=True,
            )
            return now

        rows = running.process(spark, job, Ending(until_end=True), ProgressLines(None, note), OsDisk())
        tell("the end, small files of Delta merged")
    if rows != dict.fromkeys(job.targets, counts[-1]) | {"dead_letters": 0}:
        raise SystemExit(f"the tables have {rows}, and not {counts[-1]} rows each")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,10000000", help="numbers of rows, separated by ','")
    parser.add_argument("--batch", type=int, default=200_000, help="rows in a batch")
    parser.add_argument("--driver-memory", default="1g", help="heap of Spark's JVM")
    chosen = parser.parse_args()
    counts = sorted(int(one) for one in chosen.rows.split(","))
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        directory = Path(scratch)
        with processes.server(directory / "store", "async", directory / "server.log") as server:
            asyncio.run(fill(server.name_server, counts[-1]))
            print(f"the topic has {counts[-1]:,} rows", flush=True)
            found = measure(job_of(server.name_server, directory, chosen.batch, chosen.driver_memory), counts)
    growth = found[-1] / found[0]
    print(f"from the first number of rows to the last one: {growth:.2f} times (goal: at most {GROWTH_GOAL})")
    return 0 if growth <= GROWTH_GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
