"""Draws how figures grow with the number of open transactions: small panels with two logarithmic axes, as SVG text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes. ``lines``: texts of the legend by field; ``goal``: a limit to draw, or None."""

    title: str
    lines: Mapping[str, str]
    low: float
    high: float
    goal: float | None = None


PANELS: Final = (
    Panel(
        "CPU, microseconds",
        {
            "cpu_us_per_transaction": "half and commit",
            "cpu_us_per_old_commit": "commit of an old half",
            "cpu_us_per_check": "check and answer",
        },
        10,
        1000,
    ),
    Panel(
        "start, seconds", {"start_after_kill_s": "after SIGKILL", "start_after_stop_s": "after a stop"}, 0.1, 100, 10
    ),
    Panel(
        "memory of each, bytes",
        {"memory_bytes_per_open": "filled", "memory_bytes_per_open_restarted": "restarted"},
        100,
        10_000,
        1024,
    ),
    Panel("all asked, seconds", {"asked_s": "by a producer that answers"}, 0.01, 1000),
)
WIDTH: Final = 420
HEIGHT: Final = 300
LEFT: Final = 60
BOTTOM: Final = 44
TOP: Final = 34
RIGHT: Final = 16
COLORS: Final = ("#0b6e99", "#c2570c", "#4a7d1e")


def draw(rows: Sequence[Mapping[str, Any]]) -> str:
    """The picture as SVG. ``rows``: the figures in the JSON file, each with ``open``."""
    columns = 2
    height = HEIGHT * math.ceil(len(PANELS) / columns)
    size = f'width="{WIDTH * columns}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" fill="#222">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, panel in enumerate(PANELS):
        x, y = number % columns * WIDTH, number // columns * HEIGHT
        parts += [f'<g transform="translate({x} {y})">', *_panel(panel, rows), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    numbers = [row["open"] for row in rows]
    first, last = min(numbers), max(max(numbers), min(numbers) * 10)

    def across(number: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(number / first) / math.log(last / first)

    def up(value: float) -> float:
        share = math.log(max(value, panel.low) / panel.low) / math.log(panel.high / panel.low)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(share, 1.0)

    parts = [f'<text x="{LEFT}" y="18" font-weight="bold">{panel.title}</text>']
    for power in range(round(math.log10(panel.low)), round(math.log10(panel.high)) + 1):
        y = up(10.0**power)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>')
    for number in numbers:
        parts.append(
            f'<text x="{across(number):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{number:,}</text>'
        )
    parts.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">open transactions</text>')
    if panel.goal is not None:
        y, right = up(panel.goal), WIDTH - RIGHT
        line = f'x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"'
        parts.append(f'<line {line} stroke="#a00" stroke-dasharray="4"/>')
        parts.append(f'<text x="{right}" y="{y - 4:.1f}" text-anchor="end" fill="#a00">goal {panel.goal:,g}</text>')
    for (name, legend), color in zip(panel.lines.items(), COLORS, strict=False):
        points = [(across(row["open"]), up(row[name])) for row in rows if row[name] > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
        place = TOP + 8 + 15 * list(panel.lines).index(name)
        parts.append(f'<text x="{LEFT + 10}" y="{place}" fill="{color}">{legend}</text>')
    return parts
