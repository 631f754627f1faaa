"""Draws the comparison: four panels as SVG text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from benchmarks.consistency.setting import LOCAL, OURS, OURS_AHEAD, OURS_ALWAYS, OURS_ROW, OUTBOX_WAY, PLAIN, TWO_PHASE

WIDTH: Final = 460
HEIGHT: Final = 300
LEFT: Final = 64
RIGHT: Final = 20
TOP: Final = 40
BOTTOM: Final = 44
COLORS: Final = {
    TWO_PHASE: "#a03030",
    PLAIN: "#777777",
    OUTBOX_WAY: "#c2850c",
    OURS: "#0b6e99",
    OURS_AHEAD: "#4fb0d6",
    OURS_ROW: "#2f855a",
    OURS_ALWAYS: "#84c29a",
    LOCAL: "#b9b9b9",
}
LABELS: Final = {
    TWO_PHASE: ("two-phase", "commit"),
    PLAIN: ("plain", "message"),
    OUTBOX_WAY: ("outbox", "with relay"),
    OURS: ("transaction", "message"),
    OURS_AHEAD: ("transaction,", "not awaited"),
    OURS_ROW: ("transaction,", "else a row"),
    OURS_ALWAYS: ("always", "a row"),
    LOCAL: ("local", "commit only"),
}
"""Names of two short lines, so that they fit below a bar."""
Row = Mapping[str, Any]


def draw(report: Mapping[str, Any]) -> str:
    """The picture. ``report``: as the JSON file has it; panels without figures stay away."""
    panels = []
    if speed := report.get("speed"):
        panels.append(_lines("Orders a second, by client threads", speed, "per_second"))
        panels.append(_lines("Time of the order call, p50, ms", speed, "call_p50"))
    if calm := report.get("calm"):
        title = f"From commit to delivery, p50, ms, {calm[0]['rate']:g} orders/s"
        panels.append(_bars(title, [(row["way"], row["delivery_p50"]) for row in calm if row["way"] != LOCAL]))
    if hangs := [row for row in report.get("hangs", ()) if row["hangs"] == "points"]:
        title = f"Longest lock of an order's row, s; points hangs for {hangs[0]['seconds']:.0f} s"
        panels.append(_bars(title, [(row["way"], row["order_locked_max_s"]) for row in hangs]))
    columns = min(2, len(panels)) or 1
    width, height = WIDTH * columns, HEIGHT * max(1, math.ceil(len(panels) / columns))
    size = f'width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" fill="#222">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, panel in enumerate(panels):
        x, y = number % columns * WIDTH, number // columns * HEIGHT
        parts += [f'<g transform="translate({x} {y})">', *panel, "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _title(text: str) -> str:
    return f'<text x="{LEFT - 44}" y="20" font-weight="bold">{escape(text)}</text>'


def _up(value: float, low: float, high: float) -> float:
    share = math.log(max(value, low) / low) / math.log(high / low)
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(share, 1.0)


def _lines(title: str, rows: Sequence[Row], name: str) -> list[str]:
    numbers = sorted({row["clients"] for row in rows})
    values = [row[name] for row in rows if row[name] > 0] or [1.0]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.01))
    step = (WIDTH - LEFT - RIGHT) / max(1, len(numbers) - 1)
    parts = [_title(title)]
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        y = _up(10.0**power, low, high)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>')
    for place, number in enumerate(numbers):
        parts.append(
            f'<text x="{LEFT + place * step:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{number}</text>'
        )
    ways = list(dict.fromkeys(row["way"] for row in rows))
    for order, way in enumerate(ways):
        points = [
            (LEFT + numbers.index(row["clients"]) * step, _up(row[name], low, high))
            for row in rows
            if row["way"] == way
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[way]}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLORS[way]}"/>' for x, y in points]
        x, y = LEFT - 30 + 135 * (order % 3), HEIGHT - 12 + 12 * (order // 3 - 0.2)
        label = escape(" ".join(LABELS[way]))
        parts.append(f'<text x="{x:.0f}" y="{y:.0f}" font-size="10" fill="{COLORS[way]}">{label}</text>')
    return parts


def _bars(title: str, found: Sequence[tuple[str, float]]) -> list[str]:
    low = 10.0 ** math.floor(math.log10(max(0.01, min(value for _, value in found)) / 1.01))
    high = 10.0 ** math.ceil(math.log10(max(value for _, value in found) * 1.01 + low))
    wide = (WIDTH - LEFT - RIGHT) / len(found)
    parts = [_title(title)]
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        y = _up(10.0**power, low, high)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>')
    for place, (way, value) in enumerate(found):
        x, y = LEFT + place * wide + wide * 0.15, _up(value, low, high)
        bottom = HEIGHT - BOTTOM
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide * 0.7:.1f}" height="{max(1.0, bottom - y):.1f}" '
            f'fill="{COLORS[way]}"/>'
        )
        middle = x + wide * 0.35
        parts.append(f'<text x="{middle:.1f}" y="{y - 4:.1f}" text-anchor="middle">{value:.3g}</text>')
        first, rest = LABELS[way]
        parts.append(f'<text x="{middle:.1f}" y="{bottom + 16}" text-anchor="middle" font-size="11">{first}</text>')
        parts.append(f'<text x="{middle:.1f}" y="{bottom + 30}" text-anchor="middle" font-size="11">{rest}</text>')
    return parts
