"""``gantry pipeline status``: how far the streaming queries of this machine are behind."""

from __future__ import annotations

import contextlib
import os
from typing import Annotated, Any

import typer

from gantrymq.cli import show
from gantrymq.cli.cluster_options import Json, guarded
from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.monitoring.status import (
    DIRECTORY_VARIABLE,
    RUNNING,
    QueryStatus,
    StatusFiles,
    default_directory,
    is_alive,
)

COLUMNS = {
    "name": "QUERY", "state": "STATE", "batch": "BATCH", "rows": "ROWS", "rows_per_second": "ROWS/S",
    "rows_behind": "ROWS BEHIND", "seconds_behind": "SECONDS BEHIND", "state_rows": "STATE ROWS",
    "state_mb": "STATE MB", "age_s": "WRITTEN S AGO", "error": "ERROR",
}  # fmt: skip


def status(
    directory: Annotated[
        str | None,
        typer.Option("--dir", help="Directory of the status files; default: where `gantry pipeline` writes them."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how far each query is behind: rows, seconds, and the size of its state."""
    where = guarded(lambda: directory or default_directory(), "pipeline status")
    now_ms = SystemClock().wall_ms()
    rows = [row(one, now_ms) for one in StatusFiles(where, OsDisk()).read()]
    if as_json:
        show.emit_json(rows)
    else:
        show.table(rows, COLUMNS, f"no query has written its status to {where}")


def row(status: QueryStatus, now_ms: int) -> dict[str, Any]:
    """One query, as the table and JSON show it. A query whose process has died without a word is `gone`."""
    gone = status.state == RUNNING and not is_alive(status.process)
    return {
        "id": status.id, "name": status.name or status.id, "state": "gone" if gone else status.state,
        "batch": status.batch, "rows": status.rows, "rows_per_second": _rounded(status.rows_per_second),
        "rows_behind": status.rows_behind, "seconds_behind": _rounded(status.seconds_behind),
        "state_rows": status.state_rows,
        "state_mb": None if status.state_bytes is None else round(status.state_bytes / 1e6, 1),
        "age_s": round((now_ms - status.at_ms) / 1000), "error": status.error,
    }  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def export_status() -> None:
    """Let the queries that this process starts export their status."""
    with contextlib.suppress(ConfigError):  # a user without a home directory; `pipeline status` says what to set
        os.environ.setdefault(DIRECTORY_VARIABLE, default_directory())
