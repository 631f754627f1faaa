"""Draws the windows of ``lifecycle`` as SVG: for each topic how its transactions ended, and how long they took."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import Final

from gantrymq.spark.pipelines.ready_made.lifecycle import Window

WIDTH, HEIGHT, LEFT, TOP, GAP = 720, 160, 60, 40, 70
COLORS: Final = {"committed": "#2a9d5c", "rolled_back": "#8a94a6", "parked": "#7b4fb5", "open": "#e0a100"}
LATENCY_COLOR: Final = "#c0392b"


def draw(windows: Sequence[Window]) -> str:
    """An SVG picture with one part for each topic: bars of transactions, and a line of the 95th percentile."""
    topics = [(topic, list(some)) for topic, some in groupby(windows, key=lambda window: window.topic)]
    height = TOP + len(topics) * (HEIGHT + GAP)
    size = f'width="{LEFT + WIDTH + 80}" height="{height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" fill="#222">']
    for number, (name, color) in enumerate({**COLORS, "p95 of the time, ms": LATENCY_COLOR}.items()):
        x = LEFT + number * 120
        parts.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{color}"/>')
        parts.append(f'<text x="{x + 16}" y="18">{name.replace("_", " ")}</text>')
    for number, (topic, some) in enumerate(topics):
        parts += _topic(topic, some, TOP + number * (HEIGHT + GAP))
    return "\n".join([*parts, "</svg>", ""])


def _topic(topic: str, windows: Sequence[Window], top: int) -> list[str]:
    most = max(window.transactions for window in windows)
    slowest = max((window.p95_ms or 0 for window in windows), default=0) or 1
    step = WIDTH / len(windows)
    bottom = top + 20 + HEIGHT
    parts = [f'<text x="{LEFT}" y="{top + 12}" font-weight="bold">{escape(topic)}</text>']
    parts += [f'<text x="{LEFT - 6}" y="{top + 30}" text-anchor="end">{most}</text>']
    parts += [f'<text x="{LEFT + WIDTH + 6}" y="{top + 30}" fill="{LATENCY_COLOR}">{slowest:.0f} ms</text>']
    points = []
    for number, window in enumerate(windows):
        x, y = LEFT + number * step, float(bottom)
        for name, color in COLORS.items():
            tall = HEIGHT * getattr(window, name) / most
            y -= tall
            if tall:
                parts.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.9:.1f}" height="{tall:.1f}" fill="{color}"/>'
                )
        if window.p95_ms is not None:
            points.append(f"{x + step * 0.45:.1f},{bottom - HEIGHT * window.p95_ms / slowest:.1f}")
    parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{LATENCY_COLOR}" stroke-width="2"/>')
    parts.append(f'<line x1="{LEFT}" y1="{bottom}" x2="{LEFT + WIDTH}" y2="{bottom}" stroke="#222"/>')
    for window, x, anchor in ((windows[0], LEFT, "start"), (windows[-1], LEFT + WIDTH, "end")):
        parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="{anchor}">{_time(window.begin_ms)}</text>')
    return parts


def _time(begin_ms: int) -> str:
    return datetime.fromtimestamp(begin_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
