"""How values are written on pages: the Jinja environment and its filters."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gantrymq.console.answered import clock_time
from gantrymq.console.navigation import MENU, NEEDS, is_in
from gantrymq.console.plots import shown
from gantrymq.console.root_path import RootPath
from gantrymq.runtime.calendar import iso

TEXT_SHOWN: Final = 256 * 1024
"""Characters of a body; a browser takes long to lay out more."""
LIST_BODY: Final = 4_096
"""Bytes of a body that are read for a list."""
PAGE_BODY: Final = 1_048_576
"""Bytes of a body that are read for a page about one message."""
SNIPPET_BYTES: Final = 160
HEX_SHOWN: Final = 16 * 1024
"""Bytes of a body in hex."""


def environment(root_path: RootPath) -> Environment:
    """Everything that comes from a cluster is escaped. Every path of the console goes through ``url``."""
    made = Environment(
        loader=PackageLoader("gantrymq.console", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "age": age, "size": size, "when": when, "whole": whole, "figure": shown, "part": part, "query": query,
        "percent": percent, "clean": clean, "body_text": body_text, "snippet": snippet, "first_number": first_number,
        "clock_time": clock_time, "commands": commands,
    }  # fmt: skip
    made.globals |= {"url": root_path.url, "menu": MENU, "menu_needs": NEEDS, "is_in": is_in}
    return made


def age(age_ms: float | None) -> str:
    """A length of time in its two largest units."""
    if age_ms is None:
        return "\u2013"
    seconds = age_ms / 1000
    if seconds < 1:
        return f"{age_ms:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def when(value: Any) -> Markup:
    """A time, ms since 1970 or as ``calendar.iso`` writes it, as an element that says it exactly."""
    if not value:
        return Markup("\u2013")
    try:
        moment = datetime.fromisoformat(iso(value) if isinstance(value, int) else value).astimezone(UTC)
    except ValueError:  # the clock of a client told something that is no date
        return Markup("{} ms").format(str(value).removesuffix(" ms"))
    text = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(timespec="milliseconds"), text)


def whole(value: int | float | None) -> str:
    """A number with marks between thousands."""
    return "\u2013" if value is None else f"{value:,.0f}"


def percent(value: float | None) -> str:
    return "\u2013" if value is None else f"{value * 100:.0f} %"


def commands(text: str) -> Markup:
    """Text with its commands, which stand between backticks, marked as such."""
    words = [escape(word) for word in text.split("`")]
    if len(words) % 2 == 0:  # a backtick without its other half, in a name perhaps
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(word) if at % 2 else word for at, word in enumerate(words))


def size(value: int) -> str:
    """Bytes in the largest unit that fits."""
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def part(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="")


def query(values: dict[str, Any]) -> str:
    """A query with the values that are set."""
    return urlencode({name: value for name, value in values.items() if value not in (None, "", 0)})


def clean(text: str) -> str:
    """Text without characters that a browser does not show or that turn the direction of writing."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in text)


def body_text(body: bytes, kind: str = "") -> str:
    """A body for people: JSON indented, text as it is, anything else as hex. ``kind`` asks for one of them."""
    if kind != "hex":
        try:
            text = body.decode()
        except UnicodeDecodeError:
            text = None
        if text is not None and kind != "text" and (laid_out := json_text(text)) is not None:
            return laid_out
        if text is not None and (kind == "text" or all(one.isprintable() or one in "\n\t\r" for one in text)):
            return clean(text)[:TEXT_SHOWN]
        if kind == "text":
            return clean(body.decode("utf-8", "replace"))[:TEXT_SHOWN]
    return hex_text(body[:HEX_SHOWN])


def kind_of(body: bytes) -> str:
    """What a body is shown as when nobody asked for something else."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return "hex"
    return "json" if json_text(text) is not None else "text"


def json_text(text: str) -> str | None:
    """JSON with indents; None when it is no object and no list."""
    if not text.lstrip().startswith(("{", "[")) or len(text) > TEXT_SHOWN:
        return None
    try:
        return clean(json.dumps(json.loads(text), indent=2, ensure_ascii=False))
    except (ValueError, RecursionError):
        return None


def hex_text(body: bytes) -> str:
    """Sixteen bytes in a line: place, hex, and the letters among them."""
    lines = []
    for place in range(0, len(body), 16):
        row = body[place : place + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{place:08x}  {row.hex(' '):<47}  {letters}")
    return "\n".join(lines)


def snippet(body: bytes) -> str:
    """The beginning of a body on one line."""
    return clean(body[:SNIPPET_BYTES].decode("utf-8", "replace")).replace("\n", " ")


def first_number(text: str) -> str:
    """The first of several numbers: of rates, that of the last ten seconds."""
    words = text.split()
    return shown(float(words[0])) if words and words[0].replace(".", "", 1).isdigit() else "\u2013"
