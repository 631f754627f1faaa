"""The windows of ``lifecycle`` as text: a table for each topic, which fits into 80 columns. Values in, lines out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Final

from gantrymq.cli.show import safe

if TYPE_CHECKING:
    from gantrymq.spark.pipelines.ready_made.lifecycle import Window

WIDTH: Final = 80
COUNTS: Final = {
    "transactions": "all", "committed": "committed", "rolled_back": "rolled back", "parked": "parked",
    "open": "open", "checked": "checked",
}  # fmt: skip
"""The columns of numbers of transactions, with their headings."""
TIMES: Final = {"p50_ms": "p50", "p95_ms": "p95", "p99_ms": "p99"}
"""The columns of times from the half message to the decision."""
DAY_MS: Final = 86_400_000
MINUTE_MS: Final = 60_000
LEGEND: Final = "begin: in UTC; p50, p95, p99: time from the half message to its decision"
NOTHING: Final = "no transaction was found"


def lines(windows: Sequence[Window], window_ms: int) -> Iterator[str]:
    """The lines to print. No line of a table is longer than WIDTH."""
    if not windows:
        yield NOTHING
    for number, (topic, some) in enumerate(groupby(windows, key=lambda window: window.topic)):
        if number:
            yield ""
        yield from _topic(topic, list(some), window_ms)
    if windows:
        yield ""
        yield LEGEND


def _topic(topic: str, windows: Sequence[Window], window_ms: int) -> Iterator[str]:
    sums = {name: sum(getattr(window, name) for window in windows) for name in COUNTS}
    yield f"{safe(topic)}: {sums['transactions']} transactions"
    heading = ["begin", *COUNTS.values(), *TIMES.values()]
    rows = [_row(window, window_ms) for window in windows]
    shares = [_share(sums[name], sums["transactions"]) for name in COUNTS]
    yield from _aligned([heading, *rows, ["of all", *shares, *("" for _ in TIMES)]])


def _row(window: Window, window_ms: int) -> list[str]:
    counts = [_number(getattr(window, name)) for name in COUNTS]
    times = [_time(getattr(window, name)) for name in TIMES]
    return [_begin(window.begin_ms, window_ms), *counts, *times]


def _begin(begin_ms: int, window_ms: int) -> str:
    begin = datetime.fromtimestamp(begin_ms / 1000, UTC)
    if window_ms >= DAY_MS:
        return begin.strftime("%Y-%m-%d")
    return begin.strftime("%m-%d %H:%M" if window_ms >= MINUTE_MS else "%m-%d %H:%M:%S")


def _number(value: int) -> str:
    """Six characters at most for fewer than 10^11."""
    for limit, divisor, unit in ((10**5, 1, ""), (10**8, 10**3, "k"), (10**11, 10**6, "M")):
        if value < limit:
            return f"{value // divisor}{unit}"
    return f"{value // 10**9}G"


def _time(value_ms: float | None) -> str:
    """Six characters at most: ``3.2ms``, ``48ms``, ``2.1s``, ``5.0min``, ``26.5h``."""
    if value_ms is None:
        return "-"
    if value_ms < 999.5:
        return f"{value_ms:.1f}ms" if value_ms < 9.95 else f"{value_ms:.0f}ms"
    for limit, divisor, unit in ((59.95e3, 1e3, "s"), (59.95 * 60e3, 60e3, "min")):
        if value_ms < limit:
            return f"{value_ms / divisor:.1f}{unit}" if unit == "s" else f"{value_ms / divisor:.0f}{unit}"
    return f"{value_ms / 3.6e6:.1f}h"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns under each other, the first one to the left. The heading may take two lines, a blank divides it."""
    heads = [text.split(" ") for text in rows[0]]
    depth = max(len(words) for words in heads)
    tops = [[*("" for _ in range(depth - len(words))), *words] for words in heads]
    body = [*([words[line] for words in tops] for line in range(depth)), *rows[1:]]
    widths = [max(len(row[column]) for row in body) for column in range(len(rows[0]))]
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else 1
    for row in body:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield (" " * gap).join(cells).rstrip()
