"""The figures as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from benchmarks.consistency.hang import AWAY
from benchmarks.consistency.setting import (
    LOCAL,
    OURS,
    OURS_ALWAYS,
    OURS_ROW,
    OUTBOX_WAY,
    PLAIN,
    TITLES,
    TWO_PHASE,
)
from benchmarks.consistency.speed import ratio

Report = Mapping[str, Any]
GOAL_OF_PLAIN: Final = 0.85
GOAL_OF_TWO_PHASE: Final = 3.0
GOAL_DELIVERY_MS: Final = 10.0
GOAL_100: Final = 5.0
GOAL_ALWAYS_OF_PLAIN: Final = 1.0
GOAL_OF_OUTBOX: Final = 2.5
GOAL_LOCKED: Final = 1.5
GOAL_AWAY: Final = {OURS_ALWAYS: 0.9, OURS_ROW: 0.7}
"""Orders/s while the broker is away, as a part of those before."""
GOAL_BACK_S: Final = 2.0
GOAL_ROWS_PER_S: Final = 5_000
"""How soon all agree when the broker is back: the first figure, and the time that the rows take at this speed."""


def markdown(report: Report) -> str:
    parts = [_machine(report)]
    for title, make in (
        ("Speed", _speed), ("Goals", _goals), ("Calm load", _calm), ("Processor time", _cpu),
        ("When a part hangs", _hangs), ("Kills", _kills), ("Costs of `gantrymq.sql`", _costs),
    ):  # fmt: skip
        if lines := make(report):
            parts.append("\n".join([f"### {title}", "", *lines]))
    return "\n\n".join(parts) + "\n"


def _machine(report: Report) -> str:
    found = report["machine"]
    first, last = report["load"][0], report["load"][-1]
    lines = [f"* {found['cpu']}, {found['nproc']} cores; load average {first} before and {last} after the run."]
    lines.append(f"* {report['postgres']}, `fsync` on; GantryMQ with SYNC_FLUSH, {report['build']}.")
    lines.append(f"* {report['turns']} turns of {report['seconds']} s for each figure; medians. Seed {report['seed']}.")
    return "\n".join(lines)


def _table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = ["| " + " | ".join(titles) + " |", "|---|" + "---:|" * (len(titles) - 1)]
    return [*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _span(found: tuple[float, ...]) -> str:
    return f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})" if found else ""


def _speed(report: Report) -> list[str]:
    rows = []
    for row in report.get("speed", ()):
        arrives = row["way"] != LOCAL
        rows.append((
            TITLES[row["way"]], row["clients"], f"{row['per_second']:,.0f}",
            f"{row['settled_per_second']:,.0f}" if arrives else "",
            _span(ratio(report["speed"], row["clients"], row["way"], PLAIN)),
            _ms(row["call_p50"]), _ms(row["call_p99"]), _ms(row["locked_p50"]),
            *((_ms(row["delivery_p50"]), _ms(row["agree_p50"]), _ms(row["agree_p99"])) if arrives else ("", "", "")),
        ))  # fmt: skip
    titles = ("way", "clients", "orders/s", "orders/s until all four agree", "orders/s against plain message",
              "call p50 ms", "p99", "order row locked p50 ms", "commit to delivery p50 ms", "until all agree p50 ms",
              "p99")  # fmt: skip
    return _table(titles, rows) if rows else []


def _goals(report: Report) -> list[str]:
    most = max((row["clients"] for row in report.get("speed", ())), default=0)
    rows = []

    def add(what: str, goal: str, found: tuple[float, ...], reached: bool) -> None:
        if found:
            shown = _span(found) if len(found) > 1 else f"{found[0]:.2f}"
            rows.append((what, goal, shown, "reached" if reached else "MISSED"))

    plain = ratio(report.get("speed", ()), most, OURS, PLAIN)
    add(f"orders/s against plain message, {most} clients", f">= {GOAL_OF_PLAIN}", plain, plain[:1] >= (GOAL_OF_PLAIN,))
    two = ratio(report.get("speed", ()), most, OURS, TWO_PHASE)
    add(f"orders/s against two-phase commit, {most} clients", f">= {GOAL_OF_TWO_PHASE:g}", two,
        two[:1] >= (GOAL_OF_TWO_PHASE,))  # fmt: skip
    _goals_of_rows(report, most, add)
    calm = tuple(row["delivery_p50"] for row in report.get("calm", ()) if row["way"] == OURS)
    add("commit to delivery p50, calm load, ms", f"< {GOAL_DELIVERY_MS:g}", calm, calm[:1] < (GOAL_DELIVERY_MS,))
    if "costs" in report:
        cost = report["costs"]["messages"]["ratio_100_to_1"]
        add("100 messages in a transaction against one", f"< {GOAL_100:g}", (cost,), cost < GOAL_100)
        claim = report["costs"]["claim"]
        more = claim["statements_of_claim"] - claim["statements_of_read"]
        add("round trips of a claim, more than a read", "1", (more,), more <= 1)
    return _table(("what", "goal", "measured", ""), rows) if rows else []


def _goals_of_rows(report: Report, most: int, add: Callable[[str, str, tuple[float, ...], bool], None]) -> None:
    speed, clients = report.get("speed", ()), f"{most} clients"
    always = ratio(speed, most, OURS_ALWAYS, PLAIN)
    add(f"always a row: orders/s against plain message, {clients}", f">= {GOAL_ALWAYS_OF_PLAIN}", always,
        always[:1] >= (GOAL_ALWAYS_OF_PLAIN,))  # fmt: skip
    locked = ratio(speed, most, OURS_ALWAYS, LOCAL, "locked_p50")
    add(f"always a row: order row locked p50 against local commit, {clients}", f"<= {GOAL_LOCKED}", locked,
        locked[:1] <= (GOAL_LOCKED,))  # fmt: skip
    for way in (OURS, OURS_ALWAYS):
        found = ratio(speed, most, way, OUTBOX_WAY, "settled_per_second")
        add(f"{TITLES[way]}: orders/s until all agree against outbox with relay, {clients}", f">= {GOAL_OF_OUTBOX}",
            found, found[:1] >= (GOAL_OF_OUTBOX,))  # fmt: skip
    for row in report.get("hangs", ()):
        if row["hangs"] != AWAY or row["way"] not in GOAL_AWAY:
            continue
        title, goal = TITLES[row["way"]], GOAL_AWAY[row["way"]]
        part = row["per_second_during"] / max(row["per_second_before"], 0.1)
        add(f"{title}: orders/s while the broker is away against before", f">= {goal}", (part,), part >= goal)
        limit_s = GOAL_BACK_S + row["per_second_during"] * row["seconds"] / GOAL_ROWS_PER_S
        agreed_s = row["agreed_after_return_s"]
        add(f"{title}: all four agree after the broker is back, s", f"<= {limit_s:.1f}", (agreed_s,),
            agreed_s <= limit_s)  # fmt: skip


def _calm(report: Report) -> list[str]:
    rows = [
        (TITLES[row["way"]], f"{row['rate']:g}", _ms(row["call_p50"]), _ms(row["call_p99"]), _ms(row["locked_p50"]),
         _ms(row["delivery_p50"]), _ms(row["delivery_p99"]), _ms(row["agree_p50"]), _ms(row["agree_p99"]))
        for row in report.get("calm", ())
    ]  # fmt: skip
    titles = ("way", "orders/s", "call p50 ms", "p99", "order row locked p50 ms", "commit to delivery p50 ms", "p99",
              "until all four agree p50 ms", "p99")  # fmt: skip
    return _table(titles, rows) if rows else []


def _cpu(report: Report) -> list[str]:
    measured = [row for row in report.get("speed", ()) if row["clients"] == max(r["clients"] for r in report["speed"])]
    programs = list(measured[0]["cpu_ms"]) if measured else []
    rows = [
        (TITLES[row["way"]], *(f"{row['cpu_ms'][name]:.2f}" for name in programs), f"{sum(row['cpu_ms'].values()):.2f}")
        for row in measured
    ]
    titles = (f"ms for an order, {measured[0]['clients']} clients" if measured else "", *programs, "all")
    return _table(titles, rows) if rows else []


def _hangs(report: Report) -> list[str]:
    words = {"points": "points database", "broker": "broker", "broker away": "broker is killed"}
    rows = []
    for row in report.get("hangs", ()):
        others = max(age for name, age in row["locked_max_s"].items() if name != "orders")
        rows.append((
            TITLES[row["way"]], f"{words[row['hangs']]}, {row['seconds']:g} s", f"{row['per_second_before']:,.0f}",
            f"{row['per_second_during']:,.0f}", f"{row['order_locked_max_s']:.2f}", row["locked_at_once"]["orders"],
            f"{others:.2f}", f"{row['call_max_s']:.2f}", row["failed_calls"],
            f"{row['agreed_after_return_s']:.1f}",
        ))  # fmt: skip
    titles = ("way", "what hangs", "orders/s before", "during", "order row locked, longest s", "orders locked at once",
              "rows of others locked, longest s", "longest call s", "failed calls",
              "all four agree after its return, s")  # fmt: skip
    return _table(titles, rows) if rows else []


def _kills(report: Report) -> list[str]:
    rows = [
        (TITLES[row["way"]], row["victim"], row["kills"], f"{row['paid']:,}", row["lost"], row["doubled"],
         row["phantom"], row["stuck"], row["kept_away"], row["settled_s"])
        for row in report.get("kills", ())
    ]  # fmt: skip
    titles = ("way", "killed", "kills", "orders paid", "lost", "doubled", "phantom",
              f"stuck for {report.get('promised_s', 0):g} s", "second deliveries, kept away by the inbox",
              "settled after s")  # fmt: skip
    return _table(titles, rows) if rows else []


def _costs(report: Report) -> list[str]:
    if "costs" not in report:
        return []
    messages, claim = report["costs"]["messages"], report["costs"]["claim"]
    shown = ", ".join(f"{ms} ms with {number}" for number, ms in messages["ms"].items())
    read = f"{claim['read_ms']} ms, {claim['statements_of_read']:g} statement"
    claimed = f"{claim['claim_ms']} ms, {claim['statements_of_claim']:g} statements"
    return [
        f"* Messages in one transaction: {shown}. 100 cost {messages['ratio_100_to_1']} times one.",
        f"* A check-back that finds the outcome: {read}. One that claims the transaction: {claimed}.",
    ]
