"""What a command line of ``bench apache`` asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.apache import NotPossible
from benchmarks.comparison import Plan
from benchmarks.side_by_side import _parser, plan_of


def plan(*arguments: str) -> Plan:
    return plan_of(_parser().parse_args(arguments))


def test_both_setups_and_pure_python_unless_something_else_is_wanted() -> None:
    found = plan()
    assert (found.setups, found.names, found.turns) == (("shared", "pinned"), ("Apache", "GantryMQ"), 3)
    assert plan("--setup", "pinned", "--turns", "2").setups == ("pinned",)


def test_brokers_serve_the_rows_of_a_setup_a_flush_mode_and_a_size() -> None:
    found = plan("--only", "core").groups()
    assert [(setup, flush) for setup, flush, _ in found] == [
        (setup, flush) for setup in ("shared", "pinned") for flush in ("async", "sync") for _ in range(2)
    ]
    assert all(len({(row.flush, row.size) for row in rows}) == 1 for _, _, rows in found)
    assert len(plan("--short").groups()) == 4


def test_a_short_run_takes_less_than_ten_minutes() -> None:
    short = plan("--short")
    assert set(short.rows) < set(plan("--only", "core").rows) and short.turns == 1
    assert {(row.client, row.kind) for row in short.rows} == {(row.client, row.kind) for row in plan().rows}
    assert replace(short, compiled={}).minutes() < 10 < plan("--only", "core").minutes()


def test_reports_come_every_ten_seconds() -> None:
    with pytest.raises(NotPossible, match="every 10 seconds"):
        plan("--seconds", "5")
