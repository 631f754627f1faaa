"""How measurements become ratios."""

from __future__ import annotations

from typing import Any

from benchmarks.ratios import COMPILED, TITLES, cells, markdown, sizes


def turn(per_second: float, cpu: float) -> dict[str, float]:
    return {
        "per_second": per_second, "average_ms": 1.0, "max_ms": 9.0, "broker_cpu_us": cpu, "client_cpu_us": 2 * cpu,
        "idle": 0.25, "stolen": 0.02, "failed": 1,
    }  # fmt: skip


ROW: dict[str, Any] = {
    "setup": "shared", "client": "java", "kind": "plain", "flush": "async", "size": 128, "threads": 32,
    "GantryMQ": [turn(150, 30), turn(160, 31), turn(10, 90)], "Apache": [turn(100, 50), turn(90, 60), turn(110, 40)],
}  # fmt: skip
REPORT: dict[str, Any] = {
    "seconds": 20, "turns": 3, "short": False, "rows": [ROW, ROW | {"setup": "pinned"}],
    "machine": {"cpu": "a fast one", "nproc": 2, "online": 4, "start": "10 rounds", "end": "9 rounds"},
    "processes": [
        {"setup": "shared", "flush": "async", "bytes": [128], "GantryMQ": {"start_s": 0.4}, "Apache": {"start_s": 5.0}},
        {"setup": "pinned", "flush": "sync", "bytes": [128, 2048], "GantryMQ": {"start_s": 0.4, "rss_mb": 50.0},
         "Apache": {"start_s": 5.0, "rss_mb": 100.0}, COMPILED: {"start_s": 1.0, "rss_mb": 5.0}},
    ],
}  # fmt: skip


def shown(row: dict[str, Any]) -> dict[str, str]:
    return dict(zip(TITLES, cells(row), strict=True))


def test_medians_are_compared() -> None:
    found = shown(ROW)
    assert (found["per second"], found["ratio"]) == ("100 : 150", "1.50")
    assert (found["broker CPU us"], found["CPU ratio"]) == ("50.0 : 31.0", "0.62")
    assert (found["client CPU us"], found["idle %"], found["failed"]) == ("100.0 : 62.0", "25 : 25", "3 : 3")
    assert found["stolen %"] == "2 : 2"


def test_the_compiled_core_has_goals() -> None:
    found = shown(ROW | {COMPILED: [turn(189, 15)]})
    assert (found["per second"], found["ratio"], found["CPU ratio"]) == (
        "100 : 150 : 189",
        "1.50 : 1.89 !",
        "0.62 : 0.30",
    )
    found = shown(ROW | {COMPILED: [turn(190, 16)]})
    assert (found["ratio"], found["CPU ratio"]) == ("1.50 : 1.90", "0.62 : 0.32 !")


def test_what_was_not_measured_is_left_out() -> None:
    untimed = [turn(100, 50) | {"average_ms": 0.0, "max_ms": 0.0}]
    found = shown(ROW | {"GantryMQ": untimed, "Apache": untimed})
    assert (found["avg ms"], found["max ms"]) == ("", "")
    assert (shown(ROW)["avg ms"], shown(ROW)["max ms"]) == ("1.00 : 1.00", "9 : 9")


def test_sizes_are_parts_of_those_of_apache() -> None:
    shared, pinned = sizes(REPORT)
    assert shared == "shared, async, 128 B: start-up 5.00 : 0.40 s = 0.08"
    assert pinned == (
        "pinned, sync, 128 B and 2048 B: start-up 5.00 : 0.40 : 1.00 s = 0.08 : 0.20 !; RSS at start 100.00 : 50.00 : "
        "5.00 MB = 0.50 ! : 0.05"
    )


def test_a_page_has_a_table_for_each_setup() -> None:
    page = markdown(REPORT).splitlines()
    assert page[:3] == [
        "* Machine: a fast one, nproc 2 (4 online).",
        "* Its speed at the start: 10 rounds.",
        "* Its speed at the end: 9 rounds.",
    ]
    assert [line for line in page if line.startswith("### ")] == [
        "### Shared: broker and client share two cores",
        "### Pinned: a core for the broker and a core for the client",
    ]
    table = [line for line in page if line.startswith("|")]
    assert len(table) == 6 and {line.count("|") for line in table} == {len(TITLES) + 1}
    assert table[2].startswith("| java | plain | async | 128 | 32 |")
    assert page[-1].startswith("* pinned, sync, 128 B and 2048 B: start-up")
