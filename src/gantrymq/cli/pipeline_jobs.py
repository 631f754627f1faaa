"""``gantry pipeline run``, ``check`` and ``backfill``: jobs that are described in a file."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console

from gantrymq.errors import ConfigError, GantryError

if TYPE_CHECKING:
    from gantrymq.spark.pipelines.job import Job

console = Console()
errors = Console(stderr=True)

File = Annotated[str, typer.Argument(help="job file: .toml, .yaml, .py or .py:function", metavar="JOB")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="change a key of the file, for example source.subscribe=orders")
]
ProgressFile = Annotated[str | None, typer.Option("--progress", help="file to append JSON lines to")]
USAGE, FAILURE = 2, 1
T = TypeVar("T")


def need_spark() -> None:
    """End with what to install when Spark is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        errors.print("[red]The pipelines need PySpark; run: pip install 'gantrymq\\[spark]'[/red]")
        raise typer.Exit(USAGE)


def run_job(
    file: File,
    changes: Changes = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="process the messages that are in the topics now, then stop")
    ] = False,
    stop_file: Annotated[
        str | None,
        typer.Option(help="stop when this file exists and everything that was in the topics at that time is processed"),
    ] = None,
    progress: ProgressFile = None,
) -> None:
    """Run the job of a file. Ends with Ctrl-C; run it again to continue."""
    need_spark()
    from gantrymq.spark.pipelines.run import running

    job = _job(file, changes)
    with errors_shown(USAGE):
        progress, stop_file = file_of(progress, "--progress"), file_of(stop_file, "--stop-file")
    run_with_status(lambda listener: running.run(job, running.Ending(stop_file, until_end), listener, progress))


def check_job(
    file: File,
    changes: Changes = None,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="do not start Spark to check the queries; takes a moment only")
    ] = False,
) -> None:
    """Find what is wrong in a job file, without running it. Asks no broker."""
    need_spark()
    job = _job(file, changes)
    if not no_spark:
        from gantrymq.spark.pipelines.run import running

        with console.status("starting Spark ..."):
            found, grows = in_spark(lambda: running.check(job), USAGE)
        for name, columns in found.items():
            console.print(f"{name}: {columns.ddl}", markup=False, highlight=False)
        for line in grows:
            console.print(line, markup=False, highlight=False)
    console.print(f"{file}: nothing is wrong", markup=False)


def backfill_job(
    file: File,
    begin: Annotated[
        str, typer.Option("--from", help="time of storing, ISO 8601 (without a zone: UTC) or ms since 1970")
    ],
    end: Annotated[str, typer.Option("--to", help="messages stored at this time or later are left out")],
    changes: Changes = None,
    piece: Annotated[str, typer.Option("--slice", help="process the range in steps of this length")] = "1h",
    progress: ProgressFile = None,
) -> None:
    """Process the messages of a time range once more. Rows whose key is in a target already are not added."""
    need_spark()
    from gantrymq.runtime.clock import SystemClock
    from gantrymq.spark.pipelines.job import duration_ms
    from gantrymq.spark.pipelines.run.backfill import check_over, run_backfill

    job = _job(file, changes)
    with errors_shown(USAGE):
        begin_ms, end_ms, slice_ms = time_ms(begin, "--from"), time_ms(end, "--to"), duration_ms(piece)
        if begin_ms >= end_ms:
            raise ConfigError(f"--from {begin} is not before --to {end}")
        if slice_ms == 0:
            raise ConfigError("--slice must be longer than nothing")
        check_over(end_ms, SystemClock().wall_ms())
    run_with_status(lambda listener: run_backfill(job, begin_ms, end_ms, slice_ms, listener, progress))


def file_of(path: str | None, option: str) -> str | None:
    """The absolute path of a file that an option names; None for None. Raises ConfigError for an address."""
    from gantrymq.spark.pipelines.describe.addresses import directory_of

    return None if path is None else directory_of(path, option)


def _job(file: str, changes: list[str] | None) -> Job:
    from gantrymq.spark.pipelines.describe.job_file import read_job

    with errors_shown(USAGE):
        return read_job(file, changes or ())


def run_with_status(work: Callable[[Callable[[Mapping[str, Any]], None]], dict[str, int]]) -> None:
    """Run ``work`` and show its progress. Ends the command with a status when it fails or is interrupted."""
    with console.status("starting Spark ...") as status:
        total = 0

        def show(event: Mapping[str, Any]) -> None:
            nonlocal total
            total += sum(event["rows"].values()) if event["event"] == "batch" else 0
            status.update(f"{event['event']} - {total} rows written since the start")

        totals = in_spark(lambda: work(show), FAILURE)
    console.print("rows per target: " + ", ".join(f"{name} {rows}" for name, rows in totals.items()))


def in_spark(work: Callable[[], T], status: int) -> T:
    """The result of ``work``, which starts Spark. An error ends the command with this status."""
    from gantrymq.cli.pipeline_process import run_job as run_in_thread

    def fail(text: str) -> NoReturn:
        errors.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(status)

    return run_in_thread(work, fail)


@contextmanager
def errors_shown(status: int) -> Iterator[None]:
    """End the command with this status, and a line instead of a traceback, when an error of ours is raised."""
    try:
        yield
    except GantryError as error:
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(status) from error


def time_ms(text: str, option: str) -> int:
    """Milliseconds since 1970 of ISO 8601 (UTC where it names no zone) or of a number. Raises ConfigError."""
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text} is not a time; write for example 2026-01-31T12:00:00") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
