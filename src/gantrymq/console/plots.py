"""Line plots as SVG text, made here: no script draws anything. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 360
HEIGHT: Final = 96
LEFT: Final = 4
TOP: Final = 6
BOTTOM: Final = 4
GRID: Final = (TOP, HEIGHT / 2, HEIGHT - BOTTOM)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot. ``values``: None where nothing is known; the line has a gap there."""

    name: str
    values: Sequence[float | None]


def plot(title: str, lines: Sequence[Line], unit: str = "", span_s: float = 0.0) -> str:
    """An SVG element. Lines are told apart by the classes ``line-0``, ``line-1``, ... which the style sheet colours.

    The title of the element says the newest values, for those who cannot see the lines.
    """
    top = nice_ceiling(max((value for line in lines for value in line.values if value is not None), default=0.0))
    newest = ", ".join(f"{line.name} {shown(last(line.values))}{unit}" for line in lines)
    label = escape(f"{title}: {newest}")
    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" preserveAspectRatio="none">',
        f"<title>{label}</title>",
        *(f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y:g}" y2="{y:g}"/>' for y in GRID),
    ]
    for number, line in enumerate(lines):
        area = number == 0 and len(lines) == 1
        for run in runs(line.values, top):
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
            if area:
                floor = HEIGHT - BOTTOM
                parts.append(
                    f'<polygon class="area area-{number}" '
                    f'points="{run[0][0]:.1f},{floor} {points} {run[-1][0]:.1f},{floor}"/>'
                )
            parts.append(f'<polyline class="line line-{number}" points="{points}"/>')
    parts.append("</svg>")
    scale = f'<span class="scale">{escape(shown(top))}{escape(unit)}</span>' if top else ""
    since = f'<span class="span">last {span_s / 60:.0f} min</span>' if span_s >= 60 else ""
    return f'<div class="plot-frame">{"".join(parts)}{scale}{since}</div>'


def runs(values: Sequence[float | None], top: float) -> list[list[tuple[float, float]]]:
    """The points of a line, a new list after each gap."""
    found: list[list[tuple[float, float]]] = []
    step = (WIDTH - LEFT) / max(len(values) - 1, 1)
    height = HEIGHT - TOP - BOTTOM
    gap = True
    for number, value in enumerate(values):
        if value is None:
            gap = True
            continue
        if gap:
            found.append([])
            gap = False
        found[-1].append((LEFT / 2 + number * step, TOP + height * (1 - value / top if top else 1)))
    return found


def nice_ceiling(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... so that the scale does not change with every value."""
    if value <= 0:
        return 0.0
    power = 1.0
    while power * 10 < value:
        power *= 10
    while power > value:
        power /= 10
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def last(values: Sequence[float | None]) -> float | None:
    """The newest value."""
    return values[-1] if values else None


def shown(value: float | None) -> str:
    """A number for people: three digits are enough, and a dash where none is known."""
    if value is None:
        return "\u2013"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.3g}{unit}"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2g}" if abs(value) < 10 else f"{value:.3g}"
