"""What ``bench apache`` measured, as ratios: for people (a table), for a page (Markdown)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rich.table import Table

GOALS: Final = {"plain": 1.5, "transaction": 2.0, "consume": 1.0}
"""How many times Apache's messages per second we want, by kind."""
CPU_GOAL: Final = 0.6
SIZE_GOAL: Final = 0.1
"""Goals for CPU per message, and for memory and start-up time, as parts of Apache's."""
LEGEND: Final = (
    f"Pairs are ours : Apache's. ! marks what misses its goal: {GOALS['plain']} times the messages "
    f"(transactions {GOALS['transaction']}), {CPU_GOAL} of the CPU, {SIZE_GOAL} of memory and start-up."
)
_SIZES: Final = {
    "start_s": ("start-up", "s"), "rss_mb": ("RSS at start", "MB"), "anonymous_mb": ("not of files", "MB"),
    "rss_mb_after": ("RSS after the load", "MB"), "anonymous_mb_after": ("not of files, after the load", "MB"),
}  # fmt: skip


class Ratios(NamedTuple):
    """One row of the result, ready to be shown."""

    client: str
    what: str
    flush: str
    bytes: str
    threads: str
    apache_per_second: str
    ours_per_second: str
    ratio: str
    average_ms: str
    max_ms: str
    cpu_us: str
    cpu_ratio: str
    failed: str


TITLES: Final = Ratios(
    "client", "what", "flush", "bytes", "threads", "/s Apache", "/s ours", "ratio", "avg ms", "max ms", "CPU us",
    "CPU ratio", "failed",
)  # fmt: skip


def middle(figures: Iterable[Mapping[str, float]], field: str) -> float:
    """The median of one figure over the turns."""
    return statistics.median(figure[field] for figure in figures)


def ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else 0.0


def ratios(row: Mapping[str, Any]) -> Ratios:
    """``row``: as in the report of ``bench apache --json``."""
    pairs = {
        field: (middle(row["GantryMQ"], field), middle(row["Apache"], field))
        for field in ("per_second", "average_ms", "max_ms", "broker_cpu_us")
    }
    faster, cheaper = ratio(*pairs["per_second"]), ratio(*pairs["broker_cpu_us"])
    return Ratios(
        row["client"], row["kind"], row["flush"], str(row["size"]), str(row["threads"]),
        f"{pairs['per_second'][1]:,.0f}", f"{pairs['per_second'][0]:,.0f}",
        _marked(faster, faster >= GOALS[row["kind"]]),
        "{:.2f} : {:.2f}".format(*pairs["average_ms"]), "{:.0f} : {:.0f}".format(*pairs["max_ms"]),
        "{:.1f} : {:.1f}".format(*pairs["broker_cpu_us"]), _marked(cheaper, cheaper <= CPU_GOAL),
        " : ".join(str(sum(figure["failed"] for figure in row[name])) for name in ("GantryMQ", "Apache")),
    )  # fmt: skip


def sizes(report: Mapping[str, Any]) -> list[str]:
    """A line for each pair of brokers that was started."""
    lines = []
    for found in report["processes"]:
        parts = []
        for field, (name, unit) in _SIZES.items():
            ours, theirs = found["GantryMQ"].get(field), found["Apache"].get(field)
            if ours is not None and theirs is not None:
                share = ratio(ours, theirs)
                parts.append(f"{name} {ours:.2f} : {theirs:.2f} {unit} = {_marked(share, share <= SIZE_GOAL)}")
        lines.append(f"{found['flush']} {found['bytes']} B: " + "; ".join(parts))
    return lines


def table(report: Mapping[str, Any]) -> Table:
    """For a terminal."""
    shown = Table(title="GantryMQ and Apache 5.5.0: medians of the turns, and ours as a part of Apache's")
    for number, title in enumerate(TITLES):
        shown.add_column(title, justify="left" if number < 5 else "right", no_wrap=number >= 5)
    for row in report["rows"]:
        shown.add_row(*ratios(row))
    return shown


def markdown(report: Mapping[str, Any]) -> str:
    """For a page."""
    lines = [_cells(TITLES), _cells(["---"] * len(TITLES)), *(_cells(ratios(row)) for row in report["rows"])]
    turns = f"{report['turns']} turns of {report['seconds']} s each on each broker; medians."
    return "\n".join([*lines, "", f"{turns} {LEGEND}", "", *(f"* {line}" for line in sizes(report)), ""])


def _cells(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _marked(value: float, good: bool) -> str:
    return f"{value:.2f}" + ("" if good else " !")
