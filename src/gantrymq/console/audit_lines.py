"""The newest entries of the audit file, for the page about them: its end is read, and no more of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

READ_MAX: Final = 1024 * 1024
"""Bytes of the end of the file; about 3,000 changes."""
TEXT_MAX: Final = 400
"""Characters of the facts of an entry that a page shows."""
_OWN: Final = frozenset({"when", "decision", "phase", "who", "host", "action", "why", "outcome", "name_servers"})
"""What has a column of its own, or is the same in all lines."""


@dataclass(slots=True)
class Entry:
    """One change: its lines together."""

    decision: str
    when: str
    """Of its first line."""
    who: str
    host: str
    action: str
    why: str
    phase: str
    """Of its last line: ``intended`` when the process ended in between."""
    outcome: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def about(self) -> str:
        """What was changed, as text."""
        parts = (f"{name} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
                 for name, value in self.facts.items() if value not in (None, "", [], {}))  # fmt: skip
        text = ", ".join(parts)
        return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


@dataclass(frozen=True, slots=True)
class AuditEnd:
    """What the end of the file says."""

    entries: list[Entry]
    """The newest first."""
    whole: bool
    """Whether the file has no more than what was read."""
    unreadable: int
    """Lines that are none: the file was changed by hand, or a disk was full."""


def read_end(path: Path, most: int = READ_MAX) -> AuditEnd:
    """A file that is not there has no entries. Raises OSError."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            data = file.read(most)
    except FileNotFoundError:
        return AuditEnd([], True, 0)
    lines = data.split(b"\n")
    whole = size <= most
    return entries_of(lines if whole else lines[1:], whole)


def entries_of(lines: Iterable[bytes], whole: bool) -> AuditEnd:
    """Lines of one change become one entry."""
    found: dict[str, Entry] = {}
    unreadable = 0
    for line in lines:
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            unreadable += 1
            continue
        _take(found, values)
    return AuditEnd(list(found.values())[::-1], whole, unreadable)


def _take(found: dict[str, Entry], values: Mapping[str, Any]) -> None:
    texts = {name: str(values.get(name) or "") for name in _OWN}
    key = texts["decision"] or f"line {len(found)}"
    known = found.get(key)
    if known is None:
        facts = {name: value for name, value in values.items() if name not in _OWN}
        found[key] = Entry(
            key, texts["when"], texts["who"], texts["host"], texts["action"], texts["why"], texts["phase"],
            texts["outcome"], facts,
        )  # fmt: skip
    else:
        known.phase, known.outcome = texts["phase"], texts["outcome"] or known.outcome


def fitting(entries: Iterable[Entry], word: str | None) -> list[Entry]:
    """Those with ``word`` anywhere, in any letter case."""
    if word is None:
        return list(entries)
    low = word.lower()
    return [
        one for one in entries
        if low in f"{one.who} {one.action} {one.why} {one.phase} {one.outcome} {one.about} {one.host}".lower()
    ]  # fmt: skip
