"""Pipelines: the streaming queries of this machine, and what the last comparisons with the orders found."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gantrymq.console.parts import console_of, page
from gantrymq.console.settings import ConsoleSettings
from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.monitoring.status import RUNNING, StatusFiles, default_directory, is_alive

NAMES_SHOWN: Final = 20
"""Of the orders that are missing, doubled or wrong somewhere."""
KINDS: Final = ("missing", "doubled", "phantom", "wrong")


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The orders that are wrong in the topic or in one table."""

    rows: int
    missing: list[str] = []
    doubled: list[str] = []
    phantom: list[str] = []
    wrong: list[str] = []


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The file that ``gantry pipeline reconcile --json`` writes."""

    ok: bool
    paid: int
    topic: Findings
    tables: dict[str, Findings]
    totals: dict[str, int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One report, or why there is none."""

    path: str
    at_ms: int = 0
    report: Report | None = None
    problem: str = ""
    named: list[tuple[str, str, list[str], int]] = field(default_factory=list)
    """Place, kind, some order ids, and how many there are."""


def _directory(settings: ConsoleSettings) -> str:
    """Where the status files are; empty for a user without a home directory who did not say it."""
    try:
        return settings.status_dir or default_directory()
    except ConfigError:
        return ""


async def show(request: Request) -> Response:
    """Both lists."""
    console = console_of(request)
    settings = console.settings
    directory = _directory(settings)
    queries = [
        (one, "gone" if one.state == RUNNING and not is_alive(one.process) else one.state)
        for one in (StatusFiles(directory, OsDisk()).read() if directory else ())
    ]
    return page(
        request, "pipelines.html", queries=queries, directory=directory, now_ms=console.clock.wall_ms(),
        comparisons=[comparison(path) for path in settings.reconciliations], kinds=KINDS,
    )  # fmt: skip


def comparison(path: str) -> Comparison:
    """What a file says; when it was written is the time of the file."""
    place = Path(path)
    try:
        report = msgspec.json.decode(place.read_bytes(), type=Report)
        at_ms = int(datetime.fromtimestamp(place.stat().st_mtime, UTC).timestamp() * 1000)
    except (OSError, msgspec.MsgspecError) as error:
        return Comparison(path, problem=f"no report can be read there: {error}")
    places = {"the topic": report.topic, **{f"table {name}": found for name, found in report.tables.items()}}
    named = [
        (where, kind, ids[:NAMES_SHOWN], len(ids))
        for where, found in places.items()
        for kind in KINDS
        if (ids := getattr(found, kind))
    ]
    return Comparison(path, at_ms, report, named=named)
