"""The steps of a message on an axis of time, as bars: a waterfall. Pure; a bar is a small SVG element in a table row.

A table keeps it readable for those who do not see the bars, and on narrow screens: each row says what the bar shows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gantrymq.admin.traces import Happened, TraceStep

WIDTH: Final = 1000
HEIGHT: Final = 16
LEAST: Final = 6.0
"""Width of the shortest bar, so that it can be seen."""
TICKS: Final = 4
DIAMOND: Final = 10.0
"""Half the width of the mark of a moment."""


class Kind(enum.StrEnum):
    """What a bar is; the style sheet colours it."""

    SENT = "sent"
    DECIDED = "decided"
    CONSUMED = "consumed"
    BROKER = "broker"


_KINDS: Final = {
    Happened.SENT: Kind.SENT, Happened.SENT_HALF: Kind.SENT, Happened.SENT_DELAYED: Kind.SENT,
    Happened.CONSUMED: Kind.CONSUMED, Happened.DECIDED: Kind.DECIDED, Happened.RECALLED: Kind.DECIDED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bar:
    """One step."""

    what: str
    who: str
    """The group or the broker that did it."""
    begin_ms: int
    took_ms: int | None
    """None: it is a moment, or its end was not recorded."""
    kind: Kind
    failed: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """The span of time that all bars share."""

    begin_ms: int
    length_ms: int

    def x(self, at_ms: int) -> float:
        return WIDTH * (at_ms - self.begin_ms) / self.length_ms

    @property
    def ticks(self) -> list[int]:
        """ms after the begin, from the left to the right."""
        return [self.length_ms * number // TICKS for number in range(TICKS + 1)]


def bars_of(steps: Iterable[TraceStep]) -> list[Bar]:
    """What clients recorded. A step without a time cannot be placed and is left out."""
    return [
        Bar(
            str(step.happened), step.group, step.at_ms, step.took_ms, _KINDS[step.happened], step.good is False,
            step.outcome,
        )
        for step in steps
        if step.at_ms > 0
    ]  # fmt: skip


def is_of_transaction(steps: Iterable[TraceStep]) -> bool:
    """Whether brokers know more about the message: it was sent as a half message."""
    return any(step.happened in (Happened.SENT_HALF, Happened.DECIDED) for step in steps)


def in_order(bars: Iterable[Bar]) -> list[Bar]:
    """By the time of their begin; of equal ones the longer first, so that a step stands above what it contains."""
    return sorted(bars, key=lambda bar: (bar.begin_ms, -(bar.took_ms or 0)))


def axis_of(bars: Sequence[Bar]) -> Axis | None:
    """From the first begin to the last end; None without bars."""
    if not bars:
        return None
    begin = min(bar.begin_ms for bar in bars)
    end = max(bar.begin_ms + (bar.took_ms or 0) for bar in bars)
    return Axis(begin, max(end - begin, 1))


def bar_svg(bar: Bar, axis: Axis) -> str:
    """A bar; a moment is a diamond. Hidden from screen readers, because the row says the same."""
    x = axis.x(bar.begin_ms)
    middle = HEIGHT / 2
    grid = "".join(
        f'<line class="grid" x1="{at:g}" x2="{at:g}" y1="0" y2="{HEIGHT}"/>'
        for at in (WIDTH * number / TICKS for number in range(TICKS + 1))
    )
    name = f"bar bar-{bar.kind}{' bar-failed' if bar.failed else ''}"
    if bar.took_ms is None:
        x = min(max(x, DIAMOND), WIDTH - DIAMOND)
        points = f"{x - DIAMOND:.1f},{middle} {x:.1f},{middle - 6} {x + DIAMOND:.1f},{middle} {x:.1f},{middle + 6}"
        shape = f'<polygon class="{name}" points="{points}"/>'
    else:
        width = max(axis.x(bar.begin_ms + bar.took_ms) - x, LEAST)
        x = min(x, WIDTH - width)
        shape = f'<rect class="{name}" x="{x:.1f}" y="3" width="{width:.1f}" height="{HEIGHT - 6}" rx="2"/>'
    return (
        f'<svg class="waterfall" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f"{grid}{shape}</svg>"
    )
