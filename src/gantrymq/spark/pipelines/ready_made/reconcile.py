"""The job ``reconcile``: compares the order database, the messages in the topic, and the rows in the tables.

Every paid order must be in the topic, and exactly once in each table; nothing else may be there. The report names each
order for which this is not so.

    python -m gantrymq.spark.pipelines.ready_made.reconcile --orders-db orders.sqlite --tables tables \\
        --name-servers 127.0.0.1:9876 --topic orders-paid --json report.json

Exit status: 0 all agree, 1 orders are missing, doubled, phantom or wrong, 2 the comparison was not possible.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from gantrymq.errors import GantryError
from gantrymq.runtime.disk import OsDisk, write_durably
from gantrymq.spark.pipelines.formats.decoding import EVENT
from gantrymq.spark.pipelines.job import Body, Run
from gantrymq.spark.pipelines.ready_made import order_sources
from gantrymq.spark.pipelines.ready_made.order_event import CENTS_PER_POINT
from gantrymq.spark.pipelines.ready_made.order_paid import EVENT_SCHEMA, ORDER_TABLES, add_spark_options
from gantrymq.spark.pipelines.ready_made.order_sources import OrderColumns
from gantrymq.spark.pipelines.run.event_stream import decoded, place
from gantrymq.spark.pipelines.run.job_session import session
from gantrymq.spark.pipelines.targets.object_stores import disk_of
from gantrymq.spark.pipelines.targets.parquet.tables import description_of, read_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ReconcileJob:
    """The settings of a comparison."""

    orders_db: str
    """Where the orders are: a SQLite file, ``postgresql://...``, or a Parquet file or directory."""
    tables: str
    """Directory of the tables that order-paid wrote."""
    name_servers: str
    topic: str
    json: str | None = None
    """File for the report."""
    orders_table: str = "orders"
    """Of a database; ``schema.table`` in PostgreSQL."""
    columns: OrderColumns = field(default_factory=OrderColumns)
    paid_status: str = "paid"
    """The status of paid orders, in upper or lower case."""
    strict: bool = False
    """Also fail when an order is in the topic twice, although it is in the tables only once."""
    read_timeout: str = "60s"
    run: Run = field(default_factory=Run)
    """Where Spark runs."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The errors in the topic or in one table, as sorted order ids."""

    rows: int
    missing: list[str]
    """Orders that are paid, but are not here."""
    doubled: list[str]
    """Orders that are here more than once."""
    phantom: list[str]
    """Orders that are here, but are not paid or do not exist."""
    wrong: list[str]
    """Orders that are here with another user, amount or number of points than in the database."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of different orders, over topic and tables."""

    missing: int
    doubled: int
    """Orders that are in a table more than once."""
    phantom: int
    wrong: int
    delivered_twice: int
    """Orders that are in the topic more than once. Producers may send an order again; tables must not repeat it."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the comparison, and the content of the JSON file."""

    ok: bool
    orders: dict[str, int]
    """The number of orders in the database by status, in the database's spelling."""
    paid: int
    topic: Findings
    unreadable: list[str]
    """Messages that are not order-paid events, as topic/broker/queue/offset."""
    tables: dict[str, Findings]
    totals: Totals


def run(job: ReconcileJob) -> Report:
    """Compare and write the report. Raises ConfigError when the order database cannot be read."""
    statuses, orders = read_orders(job)
    with session("gantry reconcile", job.run) as spark:
        report = compare(spark, job, statuses, orders)
    if job.json:
        path = os.path.abspath(job.json)
        write_durably(OsDisk(), path, msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    return report


def read_orders(job: ReconcileJob) -> tuple[dict[str, int], pa.Table]:
    """(orders by status, paid orders) from the order database. Raises ConfigError, which says what is wrong."""
    return order_sources.read(job.orders_db, job.orders_table, job.columns, job.paid_status)


TOPIC = "topic"


def compare(spark: SparkSession, job: ReconcileJob, statuses: dict[str, int], orders: pa.Table) -> Report:
    """Compare in an existing Spark session."""
    from pyspark.sql import functions as f

    paid = spark.createDataFrame(orders)
    delivered = _delivered(spark, job).persist()
    unreadable = [row.place for row in delivered.where("order_id is null").select("place").collect()]
    rows = delivered.where("order_id is not null").select(
        f.lit(TOPIC).alias("where"),
        "order_id",
        "user_id",
        f.col("amount_cents").alias("amount"),
        f.lit(1).alias("unit"),
    )
    for name in ORDER_TABLES:
        # A pipeline that has not yet started has no tables: everything is missing then.
        if description_of(f"{job.tables}/{name}", disk_of(job.tables, OsDisk())) is not None:
            rows = rows.unionByName(_rows_of(name, read_table(spark, f"{job.tables}/{name}")))
    found = _findings(paid, rows)
    topic, tables = found[TOPIC], {name: found[name] for name in ORDER_TABLES}
    totals = Totals(
        missing=_different(one.missing for one in found.values()),
        doubled=_different(one.doubled for one in tables.values()),
        phantom=_different(one.phantom for one in found.values()),
        wrong=_different(one.wrong for one in found.values()),
        delivered_twice=len(topic.doubled),
    )
    bad = totals.missing + totals.doubled + totals.phantom + totals.wrong
    return Report(
        ok=bad == 0 and not (job.strict and totals.delivered_twice),
        orders=statuses,
        paid=len(orders),
        topic=topic,
        unreadable=sorted(unreadable),
        tables=tables,
        totals=totals,
    )


def _rows_of(name: str, table: DataFrame) -> DataFrame:
    """A table in the form for the comparison: with an amount and the number of cents in its unit, or null for both."""
    from pyspark.sql import functions as f

    amount = f.col("points") if name == "points" else f.lit(None).cast("bigint")
    return table.select(
        f.lit(name).alias("where"), "order_id", "user_id", amount.alias("amount"), f.lit(CENTS_PER_POINT).alias("unit")
    )


def _findings(paid: DataFrame, rows: DataFrame) -> dict[str, Findings]:
    """Compare topic and tables with the paid orders. One grouping by order finds the errors in all of them."""
    from pyspark.sql import functions as f

    fits = (f.col("user_id") == f.col("paid_user")) & f.coalesce(
        f.col("amount") == f.expr("paid_cents div unit"), f.lit(True)
    )
    places = (TOPIC, *ORDER_TABLES)
    counts = []
    for number, name in enumerate(places):
        here = f.col("where") == name
        counts.append(f.count_if(here).alias(f"times_{number}"))
        counts.append(f.count_if(here & ~f.coalesce(fits, f.lit(False))).alias(f"unlike_{number}"))
    orders = (
        rows.join(paid.withColumn("known", f.lit(True)), "order_id", "full")
        .groupBy("order_id")
        .agg(f.count_if("known").alias("known"), *counts)
        .persist()
    )
    # A paid order is right where it is once, and like in the database; another one where it is not.
    right = [f"times_{number} = least(known, 1) and unlike_{number} = 0" for number in range(len(places))]
    broken = orders.where(f"not ({' and '.join(right)})").collect()
    (sums,) = orders.agg(*(f.sum(f"times_{number}") for number in range(len(places)))).collect()

    def those(number: int, choose: Callable[[bool, int, int], bool]) -> list[str]:
        return sorted(
            one["order_id"]
            for one in broken
            if choose(one["known"] > 0, one[f"times_{number}"], one[f"unlike_{number}"])
        )

    return {
        name: Findings(
            rows=sums[number] or 0,
            missing=those(number, lambda known, times, unlike: known and times == 0),
            doubled=those(number, lambda known, times, unlike: times > 1),
            phantom=those(number, lambda known, times, unlike: not known and times > 0),
            wrong=those(number, lambda known, times, unlike: known and unlike > 0),
        )
        for number, name in enumerate(places)
    }


def _different(lists: Iterable[list[str]]) -> int:
    return len({order for one in lists for order in one})


def _delivered(spark: SparkSession, job: ReconcileJob) -> DataFrame:
    """Every message of the topic: the fields of its event (null if the message is not an event) and its position."""
    messages = (
        spark.read.format("rocketmq")
        .option("nameServers", job.name_servers)
        .option("subscribe", job.topic)
        .option("readTimeout", job.read_timeout)
        .option("columns", "topic,broker_name,queue_id,queue_offset,body")
        .load()
    )
    # The same reader as that of the job: what it does not take must not count as delivered here.
    read = decoded(messages, Body(schema=EVENT_SCHEMA))
    return read.select(EVENT, place().alias("place")).select(f"{EVENT}.*", "place")


def _arguments(argv: Sequence[str] | None) -> ReconcileJob:
    parser = argparse.ArgumentParser(prog="reconcile", description="Compare order database, topic and tables.")
    parser.add_argument("--orders-db", required=True, help="orders: SQLite file, postgresql://... or Parquet")
    parser.add_argument("--tables", required=True, help="directory of the tables that order-paid wrote")
    parser.add_argument("--name-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--json", help="file for the report")
    parser.add_argument("--orders-table", default="orders")
    parser.add_argument("--orders-columns", default="", help="for example order_id=id,user_id=customer")
    parser.add_argument(
        "--paid-status", default="paid", help="status of paid orders; upper and lower case are the same"
    )
    parser.add_argument("--strict", action="store_true", help="also fail when the topic holds an order twice")
    parser.add_argument("--read-timeout", default="60s", help="how long to try again while brokers are unreachable")
    add_spark_options(parser)
    given = vars(parser.parse_args(argv))
    columns = OrderColumns.of(given.pop("orders_columns"))
    run = Run(master=given.pop("master"), python=given.pop("python"), spark=dict(given.pop("conf")))
    return ReconcileJob(**given, columns=columns, run=run)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison, and print the totals as one JSON line."""
    try:
        report = run(_arguments(argv))
    except GantryError as error:
        sys.stderr.write(f"reconcile: {error}\n")
        return 2
    sys.stdout.write(
        msgspec.json.encode({"ok": report.ok, "paid": report.paid, "totals": report.totals}).decode() + "\n"
    )
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
