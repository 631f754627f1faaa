"""How measurements become ratios."""

from __future__ import annotations

from typing import Any

from benchmarks.ratios import markdown, ratios, sizes


def turn(per_second: float, cpu: float) -> dict[str, float]:
    return {"per_second": per_second, "average_ms": 1.0, "max_ms": 9.0, "broker_cpu_us": cpu, "failed": 1}


ROW: dict[str, Any] = {
    "client": "java", "kind": "plain", "flush": "async", "size": 128, "threads": 32,
    "GantryMQ": [turn(150, 30), turn(160, 31), turn(10, 90)], "Apache": [turn(100, 50), turn(90, 60), turn(110, 40)],
}  # fmt: skip
REPORT: dict[str, Any] = {
    "seconds": 20, "turns": 3, "rows": [ROW],
    "processes": [{"flush": "async", "bytes": 128, "GantryMQ": {"start_s": 0.4}, "Apache": {"start_s": 5.0}}],
}  # fmt: skip


def test_medians_are_compared_and_missed_goals_marked() -> None:
    found = ratios(ROW)
    assert (found.apache_per_second, found.ours_per_second, found.ratio) == ("100", "150", "1.50")
    assert (found.cpu_us, found.cpu_ratio, found.failed) == ("31.0 : 50.0", "0.62 !", "3 : 3")
    assert ratios(ROW | {"kind": "transaction"}).ratio == "1.50 !"
    assert sizes(REPORT) == ["async 128 B: start-up 0.40 : 5.00 s = 0.08"]


def test_a_page_has_a_line_for_each_row() -> None:
    page = markdown(REPORT).splitlines()
    assert [line.count("|") for line in page[:3]] == [14] * 3 and page[2].startswith(
        "| java | plain | async | 128 | 32 |"
    )
    assert page[-1].startswith("* async 128 B: start-up")
