"""``gantry pipeline``: the ready-made Spark jobs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from gantrymq.cli.cluster_options import LOCAL, NameServers
from gantrymq.cli.pipeline_history import archive, lifecycle, replay
from gantrymq.cli.pipeline_jobs import USAGE, backfill_job, check_job, errors_shown, file_of, need_spark
from gantrymq.cli.pipeline_jobs import run_job as run_job_file
from gantrymq.cli.pipeline_process import run_job
from gantrymq.cli.pipeline_status import export_status, status
from gantrymq.cli.spark_place import HERE, Conf, ExecutorPython, Master, run_of

app = typer.Typer(name="pipeline", help="Run Spark pipelines: your own, or a ready-made one.", no_args_is_help=True)
console = Console()
errors = Console(stderr=True)


class Starting(Enum):
    """Where a job without a checkpoint begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


Topic = Annotated[str, typer.Option("--topic", "-t", help="topic of order-paid messages")]


app.command("run")(run_job_file)
app.command("check")(check_job)
app.command("backfill")(backfill_job)
app.command("status")(status)
app.command("lifecycle")(lifecycle)
app.command("archive")(archive)
app.command("replay")(replay)


@app.callback()
def every_pipeline() -> None:
    export_status()


def _need_topic(name_servers: str, topic: str, *, status: int) -> None:
    """Ask before Spark starts: a wrong name is said within seconds."""
    from gantrymq.cli.pipeline_check import check_topic
    from gantrymq.errors import GantryError

    try:
        check_topic(name_servers, topic)
    except GantryError as error:
        _fail(str(error), status=status)


def _fail(text: str, *, status: int) -> NoReturn:
    errors.print(text, style="red", markup=False, highlight=False)
    raise typer.Exit(status)


@app.command("order-paid")
def order_paid(
    topic: Topic,
    out: Annotated[str, typer.Option(help="directory of the tables shipping, points and cart")],
    checkpoint: Annotated[str, typer.Option(help="directory of Spark's checkpoint")],
    name_servers: NameServers = LOCAL,
    stop_file: Annotated[
        str | None,
        typer.Option(help="stop when this file exists and everything that was in the topic at that time is processed"),
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="process the messages that are in the topic now, then stop")
    ] = False,
    progress: Annotated[str | None, typer.Option(help="file to append JSON lines to")] = None,
    interval_ms: Annotated[int, typer.Option(help="shortest time between two batches, ms")] = 500,
    starting: Annotated[Starting, typer.Option(help="where a job without a checkpoint begins")] = Starting.EARLIEST,
    horizon: Annotated[str, typer.Option(help="how long a repeated order is recognised, for example 24h")] = "24h",
    read_timeout: Annotated[str, typer.Option(help="how long to try again while brokers are unreachable")] = "120s",
    master: Master = HERE,
    python: ExecutorPython = None,
    conf: Conf = None,
) -> None:
    """Turn paid orders into shipping, points and cart tables, each order exactly once. Ends with Ctrl-C."""
    need_spark()
    from gantrymq.spark.pipelines.ready_made.order_paid import OrderPaidJob, run

    with errors_shown(USAGE):
        spark_run = run_of(master, python, conf)
        progress, stop_file = file_of(progress, "--progress"), file_of(stop_file, "--stop-file")
    job = OrderPaidJob(
        name_servers=name_servers, topic=topic, out=out, checkpoint=checkpoint, stop_file=stop_file,
        until_end=until_end, progress=progress, interval_ms=interval_ms, starting=starting.value,
        horizon=horizon, read_timeout=read_timeout, run=spark_run,
    )  # fmt: skip
    _need_topic(name_servers, topic, status=1)
    with console.status("starting Spark ...") as shown:
        total = 0

        def show(event: Mapping[str, Any]) -> None:
            nonlocal total
            total += event["rows"]["shipping"] if event["event"] == "batch" else 0
            shown.update(f"{event['event']} - {total} orders in the tables since the start")

        totals = run_job(lambda: run(job, show), lambda text: _fail(text, status=1))
    console.print("rows per table: " + ", ".join(f"{name} {rows}" for name, rows in totals.items()))


@app.command("reconcile")
def reconcile(
    topic: Topic,
    orders_db: Annotated[str, typer.Option(help="the orders: SQLite file, postgresql://... or Parquet")],
    tables: Annotated[str, typer.Option(help="directory of the tables that order-paid wrote")],
    name_servers: NameServers = LOCAL,
    json: Annotated[str | None, typer.Option("--json", help="file for the report")] = None,
    orders_table: Annotated[str, typer.Option(help="table of the orders")] = "orders",
    orders_columns: Annotated[
        str, typer.Option(help="names of columns that differ, for example order_id=id,user_id=customer")
    ] = "",
    paid_status: Annotated[str, typer.Option(help="status of paid orders; upper and lower case are the same")] = "paid",
    strict: Annotated[bool, typer.Option("--strict", help="also fail when the topic holds an order twice")] = False,
    read_timeout: Annotated[str, typer.Option(help="how long to try again while brokers are unreachable")] = "60s",
    master: Master = HERE,
    python: ExecutorPython = None,
    conf: Conf = None,
) -> None:
    """Compare order database, topic and tables; name every order that is missing, doubled, phantom or wrong."""
    need_spark()
    from gantrymq.errors import ConfigError
    from gantrymq.spark.pipelines.ready_made.order_sources import OrderColumns
    from gantrymq.spark.pipelines.ready_made.reconcile import Findings, ReconcileJob, run

    try:
        columns, spark_run = OrderColumns.of(orders_columns), run_of(master, python, conf)
    except ConfigError as error:
        _fail(str(error), status=2)
    job = ReconcileJob(
        orders_db=orders_db, tables=tables, name_servers=name_servers, topic=topic, json=json,
        orders_table=orders_table, columns=columns, paid_status=paid_status, strict=strict, read_timeout=read_timeout,
        run=spark_run,
    )  # fmt: skip
    with console.status("comparing ..."):
        report = run_job(lambda: run(job), lambda text: _fail(text, status=2))
    view = Table(title=f"{report.paid} paid orders")
    for heading in ("where", "rows", "missing", "doubled", "phantom", "wrong"):
        view.add_column(heading, justify="left" if heading == "where" else "right")

    def line(name: str, found: Findings) -> None:
        kinds = (found.missing, found.doubled, found.phantom, found.wrong)
        view.add_row(name, str(found.rows), *(str(len(orders)) for orders in kinds))
        for kind, orders in zip(("missing", "doubled", "phantom", "wrong"), kinds, strict=True):
            if orders:
                console.print(f"{name}: {kind}: {', '.join(orders)}")

    line("topic", report.topic)
    for name, found in report.tables.items():
        line(name, found)
    console.print(view)
    raise typer.Exit(0 if report.ok else 1)
