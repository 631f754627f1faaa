"""``gantry demo``: orders are paid, processes are killed, Spark makes tables, and nothing is lost."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from gantrymq.demo.layout import TRANSACTION_CHECK_INTERVAL_MS, TRANSACTION_TIME_OUT_MS, choose_directory
from gantrymq.demo.plan import make_plan
from gantrymq.demo.result import Result, next_commands, write_result
from gantrymq.demo.script import DemoRun, DemoSettings, Snapshot
from gantrymq.errors import GantryError
from gantrymq.runtime.clock import SystemClock

CALLED_AS = "GANTRY_CALLED_AS"
"""Variable in which ``run.py`` says how a person calls gantry."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

LINE_EVERY_SECONDS = 5.0
"""Without a terminal a line of progress is printed this often, when there is progress ..."""

SIGN_OF_LIFE_SECONDS = 30.0
"""... and this often when there is none."""


class TerminalShow:
    """Progress bars on a terminal; elsewhere a line now and then."""

    def __init__(self, console: Console, orders: int, checks: int, *, spark: bool) -> None:
        """``checks``: how many check-backs the plan makes certain; there may be more."""
        self._console = console
        self._clock = SystemClock()
        self._started = self._last_time = self._clock.monotonic()
        self._last_snapshot: Snapshot | None = None
        self._progress = Progress(
            TextColumn("{task.description:>24}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._decided = self._add("orders decided", orders)
        self._checked = self._add("decided by check-back", checks)
        self._certain_checks = checks
        self._rows = self._add("rows in every table", orders) if spark else None

    def _add(self, text: str, total: int) -> TaskID:
        return self._progress.add_task(text, total=total)

    def __enter__(self) -> TerminalShow:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def stage(self, name: str, text: str) -> None:
        self._progress.console.print(f"[bold]{name:>11}[/bold]  {text}", highlight=False)

    def event(self, text: str) -> None:
        self._progress.console.print(f"             {text}", style="yellow", highlight=False, soft_wrap=True)

    def progress(self, snapshot: Snapshot) -> None:
        counts, rows = snapshot.counts, snapshot.rows
        in_tables = min(rows.shipping, rows.points, rows.cart) if rows else 0
        self._progress.update(self._decided, completed=counts.decided)
        self._progress.update(
            self._checked, completed=snapshot.checked, total=max(snapshot.checked, self._certain_checks)
        )
        if self._rows is not None:
            self._progress.update(self._rows, completed=in_tables, total=max(counts.paid, 1))
        if not self._console.is_terminal:
            self._print_line(snapshot, in_tables)

    def _print_line(self, snapshot: Snapshot, in_tables: int) -> None:
        now = self._clock.monotonic()
        waited = now - self._last_time
        if waited < LINE_EVERY_SECONDS or (snapshot == self._last_snapshot and waited < SIGN_OF_LIFE_SECONDS):
            return
        self._last_time, self._last_snapshot = now, snapshot
        counts = snapshot.counts
        tables = f", {in_tables} in every table" if snapshot.rows else ""
        self._console.print(
            f"{now - self._started:9.0f} s  {counts.paid} paid, {counts.rolled_back} rolled back, "
            f"{snapshot.checked} decided by check-back{tables}",
            highlight=False,
            soft_wrap=True,
        )


def result_table(result: Result) -> Table:
    """Print the result for a person."""
    table = Table(title=f"{result.orders} orders, seed {result.seed}", show_header=False, title_justify="left")
    table.add_column(justify="left")
    table.add_column(justify="right")
    good = "[green]0[/green]"
    for text, number in (("orders paid", result.paid), ("rolled back", result.rolled_back)):
        table.add_row(text, str(number))
    table.add_row("decided by check-back", str(result.decided_by_check_back))
    table.add_row("still open", good if result.open == 0 else f"[bold red]{result.open}[/bold red]")
    table.add_row("delivered to the topic", str(result.delivered))
    if result.rows is not None:
        for name in ("shipping", "points", "cart"):
            table.add_row(f"rows in table {name}", str(getattr(result.rows, name)))
    table.add_section()
    for name in ("missing", "doubled", "phantom", "wrong"):
        number = getattr(result, name)
        table.add_row(name, good if number == 0 else f"[bold red]{number}[/bold red]")
    table.add_section()
    table.add_row("broker kills survived", str(result.broker_kills))
    table.add_row("producer kills survived", str(result.producer_kills))
    table.add_row("sends repeated", str(result.failed_sends))
    table.add_section()
    for name, seconds in result.stages_seconds.items():
        table.add_row(f"seconds: {name}", f"{seconds:.1f}")
    return table


def show_result(console: Console, result: Result, demo_run: DemoRun) -> None:
    console.print(result_table(result))
    used = f"compared by: {result.compared_by}; Java: {result.java or 'none used'}"
    console.print(used, highlight=False, soft_wrap=True)
    for kind, orders in result.named.items():
        if orders:
            console.print(f"{kind}: {', '.join(orders[:20])}{' ...' if len(orders) > 20 else ''}", style="red")
    console.print(f"\nAll files are in {result.dir}", highlight=False, soft_wrap=True)
    gantry = os.environ.get(CALLED_AS) or f"{sys.executable} -m gantrymq.cli.main"
    for purpose, command in next_commands(demo_run.layout, result.name_servers, gantry, sys.executable):
        console.print(f"# {purpose}\n{command}", highlight=False, soft_wrap=True, markup=False)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def demo(
    orders: Annotated[int, typer.Option(help="How many orders are paid.")] = 500,
    seed: Annotated[int, typer.Option(help="Random seed; it decides which orders meet which failure.")] = 1,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Directory for all files; it must be empty or absent. Default: ./gantry-demo-N"),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the result to this file.")] = None,
    name_server_port: Annotated[int | None, typer.Option(help="Default: a free port.")] = None,
    broker_port: Annotated[int | None, typer.Option(help="Default: a free port.")] = None,
    no_spark: Annotated[
        bool,
        typer.Option("--no-spark", help="For debugging: make no tables, and compare the topic itself with the orders."),
    ] = False,
) -> None:
    """Pay orders while producers and the broker are killed, let Spark make tables, and prove that nothing is lost.

    Exit status: 0 when orders and tables agree; 1 when an order is missing, doubled or should not be there, or when the
    demo failed.
    """
    console = Console()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        settings = DemoSettings(
            orders, seed, choose_directory(directory, Path.cwd()), not no_spark, name_server_port, broker_port
        )
        console.print(
            f"Half messages are checked {TRANSACTION_TIME_OUT_MS} ms after they were sent and then every "
            f"{TRANSACTION_CHECK_INTERVAL_MS} ms (Apache's defaults: 6 s and 30 s), so that you can watch it.",
            highlight=False,
            soft_wrap=True,
        )
        if no_spark:
            console.print("--no-spark: no tables; this run proves less than the demo does.", style="yellow")
        checks = make_plan(orders, seed).certain_checks
        with TerminalShow(console, orders, checks, spark=settings.spark) as show:
            demo_run = DemoRun(settings, show)
            result = demo_run.run()
        show_result(console, result, demo_run)
        if json_file is not None:
            write_result(result, json_file)
    except KeyboardInterrupt:
        console.print("interrupted; every process of the demo was ended", style="yellow")
        raise typer.Exit(INTERRUPTED) from None
    except GantryError as error:
        console.print(f"gantry demo: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    if not result.ok:
        raise typer.Exit(1)
