"""How figures of both servers become ratios, and which of them miss their goals."""

from __future__ import annotations

from typing import Any

from benchmarks.grpc_side_by_side import APACHE, OURS, rows


def figures(per_second: float, p99_ms: float, rss_mb: float, start_s: float, failed: int = 0) -> dict[str, Any]:
    work = [
        {"what": "send", "per_second": per_second, "p50_ms": 1.0, "p99_ms": p99_ms, "failed": failed, "cpu_us": p99_ms}
    ]
    return {"start_s": start_s, "rss_mb": rss_mb, "work": work}


def test_a_ratio_is_ours_as_a_part_of_theirs_and_a_missed_goal_is_marked() -> None:
    good = {APACHE: figures(1000, 10, 800, 20), OURS: figures(3000, 5, 100, 2)}
    bad = {APACHE: figures(1000, 10, 800, 20), OURS: figures(2990, 5.1, 101, 2.2, failed=3)}
    assert rows({"local": good, "cluster": bad}) == [
        ("local", "send: messages/s", "1,000", "3,000", "3.00"),
        ("local", "send: p99 ms", "10.00", "5.00", "0.50"),
        ("local", "send: server CPU us", "10.0", "5.0", "0.50"),
        ("local", "memory MB", "800", "100", "0.12"),
        ("local", "start s", "20.00", "2.00", "0.10"),
        ("cluster", "send: messages/s", "1,000", "2,990", "2.99 !"),
        ("cluster", "send: p99 ms", "10.00", "5.10", "0.51 !"),
        ("cluster", "send: server CPU us", "10.0", "5.1", "0.51"),
        ("cluster", "send: failed calls", "0", "3", ""),
        ("cluster", "memory MB", "800", "101", "0.13 !"),
        ("cluster", "start s", "20.00", "2.20", "0.11 !"),
    ]


def test_what_never_happened_is_no_ratio() -> None:
    nothing = {APACHE: figures(0, 0, 1, 1), OURS: figures(10, 1, 1, 1)}
    assert rows({"local": nothing})[0] == ("local", "send: messages/s", "0", "10", "0.00 !")
