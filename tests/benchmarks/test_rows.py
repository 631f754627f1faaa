"""Which rows there are, which ones a selection names, and what each is to reach."""

from __future__ import annotations

import pytest
from benchmarks.apache import NotPossible
from benchmarks.rows import CORE, Row, all_rows, chosen_rows, cpu_goal, rate_goal


def test_words_choose_rows() -> None:
    assert len(chosen_rows(["java plain async 128 32t"])) == 1
    assert {row.flush for row in chosen_rows(["sync plain"])} == {"sync"}
    assert chosen_rows([]) == all_rows()
    assert set(chosen_rows(["core"])) == CORE
    with pytest.raises(NotPossible, match="'plane' names nothing"):
        chosen_rows(["plane"])


def test_what_goals_are_about_is_measured() -> None:
    rows = set(all_rows())
    assert len(rows) == len(all_rows()) and rows > CORE
    for flush in ("async", "sync"):
        for client in ("java", "json", "ours"):
            for threads in (1, 32, 64):
                assert Row(client, "plain", flush, 128, threads) in rows
                assert Row(client, "transaction", flush, 2048, threads) in rows
        assert Row("java", "consume", flush, 128, 32) in rows


@pytest.mark.parametrize(
    ("setup", "row", "goal"),
    [
        ("shared", Row("java", "plain", "async", 128, 32), 1.9),
        ("shared", Row("json", "plain", "sync", 128, 32), 1.8),
        ("shared", Row("java", "plain", "async", 128, 1), 1.5),
        ("pinned", Row("java", "plain", "async", 128, 1), 1.8),
        ("shared", Row("java", "transaction", "sync", 2048, 64), 1.3),
        ("pinned", Row("java", "transaction", "async", 2048, 64), 2.3),
        ("pinned", Row("json", "transaction", "sync", 2048, 32), 1.9),
        ("shared", Row("java", "consume", "async", 128, 32), 2.0),
        ("pinned", Row("ours", "transaction", "async", 2048, 32), 1.5),
    ],
)
def test_each_row_has_a_goal(setup: str, row: Row, goal: float) -> None:
    assert rate_goal(setup, row) == goal


def test_goals_for_processor_time() -> None:
    kinds = ("plain", "transaction", "consume")
    assert [cpu_goal(Row("java", kind, "async", 128, 32)) for kind in kinds] == [0.3, 0.45, None]
