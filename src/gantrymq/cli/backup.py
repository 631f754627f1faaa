"""``gantry backup`` and ``gantry restore``: copies of a store directory, and what is made of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from gantrymq import __version__
from gantrymq.backup.manifest import Stored
from gantrymq.backup.progress import Progress as Told
from gantrymq.backup.pruning import Pruned
from gantrymq.backup.pruning import prune as prune_target
from gantrymq.backup.reading import backups_in, problems_in
from gantrymq.backup.restoring import Restoring
from gantrymq.backup.rules import in_order
from gantrymq.backup.taking import Taking
from gantrymq.backup.target import open_target
from gantrymq.cli import show
from gantrymq.cli.ages import seconds_of
from gantrymq.cli.cluster_options import FAILED, USAGE, DryRun, Json, Yes, agreed, fail, guarded, note
from gantrymq.runtime.calendar import iso
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.guesses.directories import expanded
from gantrymq.store.layout import Layout

app = typer.Typer(help="Back up the store of a broker, also while it runs.", invoke_without_command=True)

LogDirectory = Annotated[
    str, typer.Option("--log-directory", help="storePathCommitLog of the broker, if it is set: where the log lies.")
]
TargetPlace = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A directory, or an URL such as s3://bucket/broker-a.", show_default=False),
]


@app.callback(invoke_without_command=True)
def backup(
    context: typer.Context,
    store: Annotated[
        str, typer.Option("--store", help="The store directory: storePathRootDir of the broker.", show_default=False)
    ] = "",
    to: Annotated[
        str,
        typer.Option("--to", help="A directory, or an URL such as s3://bucket/broker-a. One for each broker.",
                     show_default=False),
    ] = "",
    log_directory: LogDirectory = "",
    as_json: Json = False,
) -> None:  # fmt: skip
    """Back up the store of a broker, also while it runs. Only what the target does not have yet is copied.

    Every message that was acknowledged before the command began is in the backup. Run it as the user of the broker.
    """
    if context.invoked_subcommand is not None:
        return
    if not store or not to:
        fail("give --store and --to; or one of the commands list, verify and prune", "backup", USAGE)

    def take() -> dict[str, Any]:
        disk = OsDisk()
        with _bar("copied", as_json) as told:
            layout = Layout(_absolute(store), log_directory and _absolute(log_directory))
            taken = Taking(disk, SystemClock(), layout, open_target(to, disk), f"gantry {__version__}", told).take()
        return {**_as_value(taken.stored), "sent_bytes": taken.sent_bytes}

    value = guarded(take, "backup")
    show.answer(as_json, value, lambda: _draw(value))


def _draw(value: dict[str, Any]) -> None:
    typer.echo(f"backup {value['id']}")
    typer.echo(
        f"{value['records']} records up to {show.when(value['last_stored_ms']) or 'the beginning'}, log offset "
        f"{value['log_end']}; {value['sent_bytes']} of {value['bytes']} bytes were new"
    )
    _draw_damage(value)


def _draw_damage(value: dict[str, Any]) -> None:
    for begin, end in value["damaged"]:
        note(f"the log has no intact record from offset {begin} to {end}; the bytes were copied as they are")


@app.command("list")
def list_backups(target: TargetPlace, as_json: Json = False) -> None:
    """Show the backups in a target, the oldest first."""
    found = guarded(lambda: backups_in(open_target(target, OsDisk())), "backup list")
    rows = [_as_value(one) for one in in_order(found.whole)]
    columns = {
        "id": "backup", "taken": "taken", "records": "records", "first_stored": "first record",
        "last_stored": "last record", "bytes": "bytes",
    }  # fmt: skip
    show.answer(as_json, {"backups": rows, "damaged": found.damaged},
                lambda: show.table(rows, columns, "no backup is there"))  # fmt: skip
    for text in found.damaged:
        note(text)
    if found.damaged:
        raise typer.Exit(FAILED)


@app.command()
def verify(target: TargetPlace, as_json: Json = False) -> None:
    """Read every object of every backup in a target, and check each record.

    The exit status is 1 when something is missing or damaged, or when there is no backup.
    """

    def look() -> tuple[int, list[dict[str, str]]]:
        place = open_target(target, OsDisk())
        with _bar("checked", as_json) as told:
            problems = [{"backup": name, "problem": text} for name, text in problems_in(place, told)]
        return len(backups_in(place).whole), problems

    count, problems = guarded(look, "backup verify")
    if not count and not problems and not as_json:
        fail("there is no backup in the target; `gantry backup --store DIR --to TARGET` makes one", "backup verify")

    def draw() -> None:
        for one in problems:
            typer.echo(f"{one['backup']}: {one['problem']}" if one["backup"] else one["problem"])
        broken = len({one["backup"] for one in problems})
        typer.echo(f"{broken} of {_backups(count)} damaged" if problems else f"{_backups(count)} read, all whole")

    show.answer(as_json, {"backups": count, "problems": problems}, draw)
    if problems or not count:
        raise typer.Exit(FAILED)


@app.command()
def prune(
    target: TargetPlace,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Age of the backups to delete: 30d, 100h.", show_default=False)
    ],
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Delete old backups, and what no other backup needs. The newest one stays, whatever its age."""
    command = "backup prune"

    def delete(*, for_show: bool) -> Pruned:
        before_ms = SystemClock().wall_ms() - int(seconds_of(older_than) * 1000)
        return prune_target(open_target(target, OsDisk()), before_ms, dry_run=for_show)

    done = guarded(lambda: delete(for_show=True), command)
    if not dry_run:
        agreed(f"Delete {_backups(len(done.backups))} with {done.size} bytes from {target}?", yes, command)
        done = guarded(lambda: delete(for_show=False), command)
    value = {
        "backups": [one.id for one in done.backups], "objects": done.objects, "bytes": done.size, "dry_run": dry_run,
    }  # fmt: skip
    said = "would be deleted" if dry_run else "deleted"
    show.answer(
        as_json, value, lambda: typer.echo(f"{_backups(len(done.backups))} with {done.size} bytes {said}")
    )  # fmt: skip


def restore(
    source: Annotated[
        str, typer.Option("--from", help="A directory, or an URL such as s3://bucket/broker-a.", show_default=False)
    ],
    store: Annotated[
        str, typer.Option("--store", help="The new store directory, empty or not there yet.", show_default=False)
    ],
    at: Annotated[
        str,
        typer.Option("--at", help="Restore the state of this time: 2026-01-31T12:00:00, local time without a zone. "
                     "Default: the newest backup."),
    ] = "",
    backup_id: Annotated[
        str, typer.Option("--backup", help="Restore this backup of `gantry backup list`. Default: the newest.")
    ] = "",
    log_directory: LogDirectory = "",
    as_json: Json = False,
) -> None:  # fmt: skip
    """Make a store directory of a backup. Then start the broker on it, as primary or as replica.

    Every record is checked. With --at the log ends before the first record that was stored later. The offsets of
    consumers are those of the last backup at or before that time: consumers may get messages again, and miss none.
    """
    at_ms = None
    if at:
        at_ms = show.parse_time(at)
        if at_ms is None:
            fail(f"--at {at!r} is not a time; write 2026-01-31T12:00:00", "restore", USAGE)
    if at and backup_id:
        fail("give --at or --backup, and not both", "restore", USAGE)

    def make() -> dict[str, Any]:
        disk = OsDisk()
        with _bar("restored", as_json) as told:
            layout = Layout(_absolute(store), log_directory and _absolute(log_directory))
            made = Restoring(disk, layout, open_target(source, disk), told).restore(at_ms, backup_id or None)
        return {
            "backup": made.log.id, "positions_of": made.tables.id, "records": made.records, "log_end": made.end,
            "last_stored": iso(made.last_ms) if made.last_ms else None, "last_stored_ms": made.last_ms,
            "lowered_positions": made.lowered, "store": layout.root,
        }  # fmt: skip

    value = guarded(make, "restore")

    def draw() -> None:
        typer.echo(
            f"restored {value['records']} records up to {show.when(value['last_stored_ms']) or 'the beginning'} from "
            f"backup {value['backup']}"
        )
        typer.echo(f"positions of consumers are those of backup {value['positions_of']}")
        if value["lowered_positions"]:
            typer.echo(f"{value['lowered_positions']} of them lay behind the ends of their queues, and were set there")
        typer.echo(f"start a broker with storePathRootDir={value['store']}")

    show.answer(as_json, value, draw)


def _backups(count: int) -> str:
    return f"{count} backup{'' if count == 1 else 's'}"


def _as_value(stored: Stored) -> dict[str, Any]:
    manifest = stored.manifest
    return {
        "id": stored.id, "taken": show.when(manifest.taken_ms), "taken_ms": manifest.taken_ms,
        "records": manifest.records, "first_stored": show.when(manifest.first_ms),
        "last_stored": show.when(manifest.last_ms), "last_stored_ms": manifest.last_ms,
        "log_start": manifest.log.start, "log_end": manifest.log.end, "bytes": manifest.size,
        "damaged": [list(gap) for gap in manifest.log.damaged], "made_by": manifest.made_by,
    }  # fmt: skip


def _absolute(path: str) -> str:
    return os.path.realpath(expanded(Path(path), "the store"))


@contextmanager
def _bar(text: str, hidden: bool) -> Iterator[Told]:
    """A bar on a terminal, and nothing elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, disable=hidden or not console.is_terminal, transient=True) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
