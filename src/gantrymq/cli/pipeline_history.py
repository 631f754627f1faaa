"""``gantry pipeline lifecycle``, ``archive`` and ``replay``."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
import typer

from gantrymq.cli import lifecycle_text
from gantrymq.cli.cluster_options import LOCAL, NameServers
from gantrymq.cli.pipeline_jobs import (
    FAILURE,
    USAGE,
    ProgressFile,
    console,
    errors_shown,
    in_spark,
    need_spark,
    run_with_status,
    time_ms,
)
from gantrymq.cli.spark_place import HERE, Conf, ExecutorPython, Master, run_of
from gantrymq.spark.sink.options import Guarantee


def lifecycle(
    name_servers: NameServers = LOCAL,
    window: Annotated[str, typer.Option(help="length of a window, for example 1m, 1h, 1d")] = "1h",
    begin: Annotated[
        str | None, typer.Option("--from", help="only transactions that began then or later: ISO 8601 or ms since 1970")
    ] = None,
    json: Annotated[str | None, typer.Option("--json", help="file for the windows")] = None,
    svg: Annotated[str | None, typer.Option("--svg", help="file for the picture")] = None,
    master: Master = HERE,
    python: ExecutorPython = None,
    conf: Conf = None,
) -> None:
    """Show how transactions ended, by topic and window: committed, rolled back, checked, still open, and how long it
    took."""
    need_spark()
    from gantrymq.runtime.disk import OsDisk, write_durably
    from gantrymq.spark.pipelines.ready_made.lifecycle import LifecycleJob, Window, report
    from gantrymq.spark.pipelines.ready_made.lifecycle_plot import draw
    from gantrymq.spark.pipelines.run.job_session import session

    with errors_shown(USAGE):
        run = run_of(master, python, conf)
        job = LifecycleJob(name_servers, window, time_ms(begin, "--from") if begin else None)
        job.window_ms  # noqa: B018 - a wrong length is an error before Spark starts

    def work() -> list[Window]:
        with session("gantry lifecycle", run) as spark:
            return report(spark, job)

    with console.status("reading half messages ..."):
        windows = in_spark(work, FAILURE)
    if json:
        write_durably(OsDisk(), os.path.abspath(json), msgspec.json.format(msgspec.json.encode(windows)) + b"\n")
    if svg:
        write_durably(OsDisk(), os.path.abspath(svg), draw(windows).encode())
    for line in lifecycle_text.lines(windows, job.window_ms):
        typer.echo(line)


def archive(
    topic: Annotated[str, typer.Option("--topic", "-t", help="topics, separated by ','")],
    out: Annotated[
        str,
        typer.Option(help="directory or address (s3://...) of the archive; it gets a directory for each topic and day"),
    ],
    checkpoint: Annotated[str, typer.Option(help="directory of Spark's checkpoint, or an address such as s3a://...")],
    name_servers: NameServers = LOCAL,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="archive the messages that are in the topics now, then stop")
    ] = False,
    progress: ProgressFile = None,
    master: Master = HERE,
    python: ExecutorPython = None,
    conf: Conf = None,
) -> None:
    """Write all messages of topics to Parquet, by topic and day, each message once. Ends with Ctrl-C."""
    need_spark()
    from gantrymq.spark.pipelines.describe.addresses import absolute_place
    from gantrymq.spark.pipelines.ready_made.archive import archive_job
    from gantrymq.spark.pipelines.run import running

    with errors_shown(USAGE):
        run = run_of(master, python, conf)
        out, checkpoint = absolute_place(out), absolute_place(checkpoint)
    job = archive_job(name_servers, topic, out, checkpoint, run)
    run_with_status(lambda listener: running.run(job, running.Ending(until_end=until_end), listener, progress))


def replay(
    archive: Annotated[str, typer.Option(help="directory or address that `gantry pipeline archive` wrote")],
    to_topic: Annotated[str, typer.Option(help="topic that gets the messages")],
    checkpoint: Annotated[
        str, typer.Option(help="directory that says how far the replay is; with a new one, everything is sent")
    ],
    name_servers: NameServers = LOCAL,
    topic: Annotated[str | None, typer.Option(help="only messages of this topic of the archive")] = None,
    begin: Annotated[str | None, typer.Option("--from", help="only messages stored then or later")] = None,
    end: Annotated[str | None, typer.Option("--to", help="only messages stored before this time")] = None,
    guarantee: Annotated[
        Guarantee, typer.Option("--delivery-guarantee", help="at_least_once is needed with Apache's brokers")
    ] = Guarantee.EXACTLY_ONCE,
    master: Master = HERE,
    python: ExecutorPython = None,
    conf: Conf = None,
) -> None:
    """Send archived messages to a topic, each exactly once. Run it again after an interrupt to continue."""
    need_spark()
    from gantrymq.cli.pipeline_check import check_name_servers
    from gantrymq.spark.pipelines.describe.addresses import absolute_place
    from gantrymq.spark.pipelines.ready_made.replay import ReplayJob
    from gantrymq.spark.pipelines.ready_made.replay import replay as send_again
    from gantrymq.spark.pipelines.run.job_session import session

    with errors_shown(USAGE):
        run = run_of(master, python, conf)
        begin_ms, end_ms = time_ms(begin, "--from") if begin else 0, time_ms(end, "--to") if end else None
        archive, checkpoint = absolute_place(archive), absolute_place(checkpoint)
    job = ReplayJob(archive, name_servers, to_topic, checkpoint, topic, begin_ms, end_ms, guarantee)
    with errors_shown(FAILURE):
        check_name_servers(name_servers)
    with console.status("starting Spark ...") as status:
        total = 0

        def show(count: int) -> None:
            nonlocal total
            total += count
            status.update(f"{total} messages sent")

        def work() -> int:
            with session("gantry replay", run) as spark:
                return send_again(spark, job, show)

        total = in_spark(work, FAILURE)
    console.print(f"{total} messages sent to {to_topic}")
