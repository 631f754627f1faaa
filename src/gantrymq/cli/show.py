"""Answers on standard output: JSON for programs, tables for people; and texts that are safe on a terminal."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gantrymq.runtime.calendar import iso, utc_of

WIDE: Final = 4_096
"""Width of the output in a pipe, so that nothing is cut or wrapped there."""
UNBROKEN: Final = frozenset({"id", "client", "message_id"})
"""Columns that people copy from: never folded, however narrow the terminal is."""
BODY_SHOWN_BYTES: Final = 2_048


def console() -> Console:
    """Standard output. It is looked up on each use, so that a test can replace it."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=WIDE)


def emit_json(value: Any) -> None:
    """One JSON text."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def emit_line(value: Mapping[str, Any]) -> None:
    """Print one JSON text on one line and flush it: for output that continues."""
    typer.echo(json.dumps(value, ensure_ascii=False))
    sys.stdout.flush()


def table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], empty: str) -> None:
    """Rows as a table. ``columns``: key to heading. ``empty``: what to say when there are no rows."""
    if not rows:
        typer.echo(empty)
        return
    numeric = {key for key in columns if all(isinstance(row.get(key), int | float | None) for row in rows)}
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for key, heading in columns.items():
        side: Literal["left", "right"] = "right" if key in numeric else "left"
        drawn.add_column(heading, justify=side, overflow="fold", no_wrap=key in UNBROKEN)
    for row in rows:
        drawn.add_row(*(Text(_cell(row.get(key))) for key in columns))
    console().print(drawn)


def facts(values: Mapping[str, Any]) -> None:
    """Names and values below each other."""
    drawn = Table(box=None, show_header=False, pad_edge=False)
    drawn.add_column(style="bold", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in values.items():
        drawn.add_row(name, Text(_cell(value)))
    console().print(drawn)


def answer(as_json: bool, value: Any, show: Callable[[], None]) -> None:
    """``value`` as JSON, or what ``show`` draws."""
    if as_json:
        emit_json(value)
    else:
        show()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return safe(str(value))


# Times.


def when(time_ms: int | None) -> str | None:
    """ms since 1970 as local time; None for 0 and None."""
    if not time_ms or time_ms < 0:
        return None
    moment = utc_of(time_ms)
    return iso(time_ms) if moment is None else moment.astimezone().isoformat(sep=" ", timespec="milliseconds")


def clock_time(time_ms: int) -> str:
    """ms since 1970 as local date and time, without the zone: for columns."""
    moment = utc_of(time_ms)
    return iso(time_ms) if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def since(span_ms: int) -> str:
    """The time since an event, with sensible precision: ``+0.004 s``, ``+6.1 s``, ``+2 min 5 s``."""
    return f"+{span_ms / 1000:.3f} s" if abs(span_ms) < 1_000 else f"+{ago(span_ms)}"


def ago(age_ms: int) -> str:
    """A length of time in its two largest units."""
    seconds = age_ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def parse_time(text: str) -> int | None:
    """ms since 1970 from ``2026-01-31T12:00[:00][+02:00]`` (local time without a zone), a date, or a number of ms.

    None when it is none of these.
    """
    if text.isdecimal() and len(text) >= 10:
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((time if time.tzinfo else time.astimezone()).timestamp() * 1000)


# Bodies.


def safe(text: str) -> str:
    """Text that a terminal cannot take for commands: control and format characters are written as escapes."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def body_fields(body: bytes) -> dict[str, Any]:
    """A body for JSON: text when it is text, else Base64."""
    try:
        return {"body": body.decode(), "body_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


def body_text(body: bytes, limit: int = BODY_SHOWN_BYTES) -> str:
    """The beginning of a body for people, safe on a terminal: text as text, all else in hexadecimal digits."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        shown, rest = body[:limit].hex(" "), f"{max(len(body) - limit, 0)} bytes"
    else:
        shown, rest = "\n".join(map(safe, text[:limit].split("\n"))), f"{max(len(text) - limit, 0)} characters"
    return shown if rest.startswith("0 ") else f"{shown}\n... and {rest} more"
