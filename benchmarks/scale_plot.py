"""Draws docs/scale.svg: what was measured on this machine, and beside it what the model says about larger clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from benchmarks.scale_model import Cluster, Costs, Planning, forecast

WIDTH, HEIGHT = 470, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 90, 40, 44
BROKERS: Final = (1, 2, 4, 8, 16, 32, 64)
CORES: Final = (4, 16, 64)
COLORS: Final = {
    "broker": "#0b6e99", "network": "#7b4fb5", "Python workers": "#c2570c", "driver": "#4a7d1e",
}  # fmt: skip
"""By what limits the rate."""
BAR: Final = "#8a94a6"
LOW, HIGH = 1e4, 1e8


class Measured(Protocol):
    """A point of ``scale``."""

    @property
    def way(self) -> str: ...
    @property
    def brokers(self) -> int: ...
    @property
    def tasks(self) -> int: ...
    @property
    def rows_per_second(self) -> float: ...


def draw(
    points: Sequence[Measured], costs: Mapping[str, Costs], planning: Planning, efficiency: Mapping[str, float]
) -> str:
    """The picture as SVG: a row for each way, measured to the left, the model to the right."""
    size = f'width="{2 * WIDTH}" height="{HEIGHT * len(costs) + 20}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" fill="#222">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, way in enumerate(costs):
        y = number * HEIGHT
        some = [point for point in points if point.way == way]
        parts += [f'<g transform="translate(0 {y})">', *_bars(way, some), "</g>"]
        parts += [
            f'<g transform="translate({WIDTH} {y})">',
            *_lines(way, costs[way], planning, efficiency[way]),
            "</g>",
        ]
    for number, (limit, color) in enumerate(COLORS.items()):
        x, y = LEFT + number * 200, HEIGHT * len(costs) + 8
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="5" fill="{color}"/>')
        parts.append(f'<text x="{x + 10}" y="{y}">model: the limit is the {limit}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _bars(way: str, points: Sequence[Measured]) -> list[str]:
    most = max(point.rows_per_second for point in points)
    step = (WIDTH - LEFT - 20) / len(points)
    parts = [f'<text x="{LEFT}" y="20" font-weight="bold">{way}: measured here, rows/s</text>']
    for number, point in enumerate(points):
        tall = (HEIGHT - TOP - BOTTOM - 14) * point.rows_per_second / most
        x, y = LEFT + number * step, HEIGHT - BOTTOM - tall
        middle = x + step * 0.4
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.8:.1f}" height="{tall:.1f}" fill="{BAR}"/>')
        parts.append(f'<text x="{middle:.1f}" y="{y - 4:.1f}" text-anchor="middle">{point.rows_per_second:,.0f}</text>')
        for place, text in ((16, _plural(point.brokers, "broker")), (31, _plural(point.tasks, "task"))):
            y = HEIGHT - BOTTOM + place
            parts.append(f'<text x="{middle:.1f}" y="{y}" text-anchor="middle">{text}</text>')
    return parts


def _lines(way: str, costs: Costs, planning: Planning, efficiency: float) -> list[str]:
    def across(brokers: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(brokers / BROKERS[0]) / math.log(BROKERS[-1] / BROKERS[0])

    def up(rate: float) -> float:
        share = math.log(max(rate, LOW) / LOW) / math.log(HIGH / LOW)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(share, 1.0)

    parts = [f'<text x="{LEFT}" y="20" font-weight="bold">{way}: model, rows/s of a stream</text>']
    for power in range(round(math.log10(LOW)), round(math.log10(HIGH)) + 1):
        y = up(10.0**power)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,.0f}</text>')
    for brokers in BROKERS:
        parts.append(
            f'<text x="{across(brokers):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{brokers}</text>'
        )
    parts.append(f'<text x="{across(8):.1f}" y="{HEIGHT - BOTTOM + 32}" text-anchor="middle">brokers</text>')
    for cores in CORES:
        found = [(one, forecast(costs, planning, Cluster(one, cores), efficiency)) for one in BROKERS]
        path = " ".join(f"{across(one):.1f},{up(what.rows_per_second):.1f}" for one, what in found)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{BAR}" stroke-dasharray="4 3"/>')
        for one, what in found:
            place = f'cx="{across(one):.1f}" cy="{up(what.rows_per_second):.1f}"'
            parts.append(f'<circle {place} r="4" fill="{COLORS[what.limit]}"/>')
        y = up(found[-1][1].rows_per_second)
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{y + 4:.1f}">{cores} tasks</text>')
    return parts


def _plural(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
