"""How full the disk of a broker is, and what happens at which fullness: from what a broker says of itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 1000
HEIGHT: Final = 24
LIMITS: Final = (
    ("diskMaxUsedSpaceRatio", "old log files are deleted at any hour"),
    ("diskSpaceCleanForciblyRatio", "the oldest log files are deleted whatever their age"),
    ("diskSpaceWarningLevelRatio", "messages are refused"),
)
"""Settings with a percentage of the disk in use, and what happens above it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit."""

    key: str
    ratio: float
    what: str
    passed: bool


@dataclass(frozen=True, slots=True)
class DiskUse:
    """The disk of the log."""

    ratio: float
    """From 0 to 1."""
    capacity: str
    """Total and free, as the broker says it."""
    log_bytes: int | None
    """From the first to the last byte of the log."""
    limits: tuple[Limit, ...]
    reserved_hours: str
    """How long messages are kept; empty: not known."""
    delete_hour: str
    """When files that are too old are deleted."""


def disk_use(runtime: Mapping[str, str], settings: Mapping[str, str]) -> DiskUse | None:
    """None when the broker does not say how full the disk is."""
    try:
        ratio = float(runtime.get("commitLogDiskRatio", ""))
    except ValueError:
        return None
    if not 0 <= ratio <= 1:
        return None
    first, last = runtime.get("commitLogMinOffset", ""), runtime.get("commitLogMaxOffset", "")
    limits = tuple(
        Limit(key, int(text) / 100, what, ratio * 100 >= int(text))
        for key, what in LIMITS
        if (text := settings.get(key, "")).isdecimal() and len(text) < 4 and int(text) <= 100
    )
    return DiskUse(
        ratio=ratio, capacity=runtime.get("commitLogDirCapacity", "").strip(" ."),
        log_bytes=int(last) - int(first) if first.isdecimal() and last.isdecimal() else None, limits=limits,
        reserved_hours=settings.get("fileReservedTime", ""), delete_hour=settings.get("deleteWhen", ""),
    )  # fmt: skip


def disk_svg(use: DiskUse) -> str:
    """A bar with a mark at each limit. Hidden from screen readers: the page says the same in words."""
    level = "bad" if any(limit.passed for limit in use.limits[-1:]) else "warn" if any(
        limit.passed for limit in use.limits) else "good"  # fmt: skip
    marks = "".join(
        f'<line class="mark" x1="{WIDTH * limit.ratio:.0f}" x2="{WIDTH * limit.ratio:.0f}" y1="0" y2="{HEIGHT}"/>'
        for limit in use.limits
    )
    return (
        f'<svg class="disk" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="disk-all" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<rect class="disk-used disk-{level}" width="{WIDTH * use.ratio:.0f}" height="{HEIGHT}"/>{marks}</svg>'
    )
