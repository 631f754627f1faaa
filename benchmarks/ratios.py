"""Shows the results of ``bench apache`` as ratios, in a table on the terminal or as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.table import Table

from benchmarks import rows
from benchmarks.rows import Row

APACHE: Final = "Apache"
PURE: Final = "GantryMQ"
COMPILED: Final = "GantryMQ compiled"
BROKERS: Final = (APACHE, PURE, COMPILED)
SETUPS: Final = {
    "shared": "Shared: broker and client share two cores",
    "pinned": "Pinned: a core for the broker and a core for the client",
}
SIZE_GOAL: Final = 0.1
"""The goal for memory and start-up time, as a part of Apache's."""
LEGEND: Final = (
    "Figures with colons are Apache : ours : ours compiled (as far as they were measured); a ratio is ours as a part "
    "of Apache's. CPU is processor time for each message or transaction; where messages are consumed, the client is "
    "the consumer and not the producer that feeds it. Idle is the share of the time of both cores in which they had "
    "nothing to do, and stolen the share that other virtual machines of the same host had. ! marks what misses its "
    "goal: for rates and CPU there are goals for the compiled broker only, for memory and start-up time the goal is "
    f"{SIZE_GOAL} of Apache's for both builds."
)
_SIZES: Final = {
    "start_s": ("start-up", "s"), "rss_mb": ("RSS at start", "MB"), "anonymous_mb": ("not of files", "MB"),
    "rss_mb_after": ("RSS after the load", "MB"), "anonymous_mb_after": ("not of files, after the load", "MB"),
}  # fmt: skip
TITLES: Final = (
    "client", "what", "flush", "bytes", "threads", "per second", "ratio", "broker CPU us", "CPU ratio", "client CPU us",
    "idle %", "stolen %", "avg ms", "max ms", "failed",
)  # fmt: skip
_WORDS: Final = 5
"""The number of columns with words; the columns after them have figures."""


def middle(figures: Iterable[Mapping[str, float]], field: str) -> float:
    """The median of one figure over the turns."""
    return statistics.median(figure[field] for figure in figures)


def ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else 0.0


def cells(found: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of a row. ``found``: the row in the report of ``bench apache --json``."""
    row = Row(found["client"], found["kind"], found["flush"], found["size"], found["threads"])
    names = [name for name in BROKERS if name in found]

    def medians(field: str, form: str, factor: float = 1.0) -> str:
        return " : ".join(format(middle(found[name], field) * factor, form) for name in names)

    def against_apache(field: str, goal: float | None, *, at_least: bool) -> str:
        theirs = middle(found[APACHE], field)
        shares = {name: ratio(middle(found[name], field), theirs) for name in names[1:]}
        return " : ".join(
            _marked(share, name != COMPILED or goal is None or (share >= goal if at_least else share <= goal))
            for name, share in shares.items()
        )

    failed = " : ".join(str(sum(figure["failed"] for figure in found[name])) for name in names)
    return (
        row.client, row.kind, row.flush, str(row.size), str(row.threads),
        medians("per_second", ",.0f"),
        against_apache("per_second", rows.rate_goal(found["setup"], row), at_least=True),
        medians("broker_cpu_us", ".1f"),
        against_apache("broker_cpu_us", rows.cpu_goal(row), at_least=False),
        medians("client_cpu_us", ".1f"),
        medians("idle", ".0f", 100),
        medians("stolen", ".0f", 100),
        *((medians("average_ms", ".2f"), medians("max_ms", ".0f")) if _has_latencies(found) else ("", "")),
        failed,
    )  # fmt: skip


def _has_latencies(found: Mapping[str, Any]) -> bool:
    """Whether the row has latencies. In a short run the rows of Apache's programs have none."""
    return any(figure["max_ms"] for name in BROKERS for figure in found.get(name, ()))


def sizes(report: Mapping[str, Any]) -> list[str]:
    """Memory and start-up time, a line for each group of brokers."""
    lines = []
    for found in report["processes"]:
        names = [name for name in BROKERS if name in found]
        parts = []
        for field, (title, unit) in _SIZES.items():
            figures = [found[name][field] for name in names if field in found[name]]
            if len(figures) == len(names):
                shares = [ratio(ours, figures[0]) for ours in figures[1:]]
                shown = " : ".join(f"{figure:.2f}" for figure in figures)
                marked = " : ".join(_marked(share, share <= SIZE_GOAL) for share in shares)
                parts.append(f"{title} {shown} {unit} = {marked}")
        bodies = " and ".join(f"{size} B" for size in found["bytes"])
        lines.append(f"{found['setup']}, {found['flush']}, {bodies}: " + "; ".join(parts))
    return lines


def machine_lines(report: Mapping[str, Any]) -> list[str]:
    """The machine, and its speed at the start and (if the run is complete) at the end."""
    found = report["machine"]
    lines = [f"Machine: {found['cpu']}, nproc {found['nproc']} ({found['online']} online)."]
    lines += [f"Its speed at the {moment}: {found[moment]}." for moment in ("start", "end") if moment in found]
    return lines


def of_setup(report: Mapping[str, Any], setup: str) -> list[Mapping[str, Any]]:
    return [row for row in report["rows"] if row["setup"] == setup]


def tables(report: Mapping[str, Any]) -> list[Table]:
    """The tables for a terminal, one for each set-up."""
    found = []
    for setup, title in SETUPS.items():
        if measured := of_setup(report, setup):
            shown = Table(title=f"{title} (Apache 5.5.0 and GantryMQ, medians of the turns)")
            for number, column in enumerate(TITLES):
                shown.add_column(column, justify="left" if number < _WORDS else "right", no_wrap=number >= _WORDS)
            for row in measured:
                shown.add_row(*cells(row))
            found.append(shown)
    return found


def markdown(report: Mapping[str, Any]) -> str:
    """The tables as Markdown."""
    lines = [f"* {line}" for line in machine_lines(report)]
    for setup, title in SETUPS.items():
        if measured := of_setup(report, setup):
            head = ["", f"### {title}", "", _cells(TITLES), _cells(["---"] * len(TITLES))]
            lines += [*head, *(_cells(cells(row)) for row in measured)]
    return "\n".join([*lines, "", f"{turns_line(report)} {LEGEND}", "", *(f"* {line}" for line in sizes(report)), ""])


def turns_line(report: Mapping[str, Any]) -> str:
    length = "a short turn" if report["short"] else f"{report['seconds']} s"
    return f"Turns on each broker: {report['turns']}, of {length} each; the figures are medians."


def _cells(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _marked(value: float, good: bool) -> str:
    return f"{value:.2f}" + ("" if good else " !")
