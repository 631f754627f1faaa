"""docs/compatibility.md agrees with the results of this run. This file is run last (groups.py)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.interop.compatibility import DOCUMENT, RESULTS, WRITE, Outcome, Result, load, render, save
from tests.interop.conftest import COLLECTED, PARTIAL
from tests.interop.features import JAVA_4, JAVA_5, SECTIONS


def test_each_cell_says_something() -> None:
    for line in render([]).splitlines():
        if line.startswith("| ") and not line.startswith("| |"):
            assert all(cell.strip() for cell in line.split("|")[1:-2]), line


def test_the_worst_result_counts() -> None:
    row = "push: orderly"
    text = render(
        [
            Result(row, JAVA_4, Outcome.WORKS, "a.py"),
            Result(row, JAVA_4, Outcome.FAILED, "b.py"),
            Result(row, JAVA_5, Outcome.SKIPPED, "b.py"),
        ]
    )
    line = next(line for line in text.splitlines() if line.startswith(f"| {row} |"))
    assert [cell.strip() for cell in line.split("|")[2:4]] == [Outcome.FAILED.value, "not yet"]
    assert "`a.py`, `b.py`" in line


def test_rows_are_told_apart() -> None:
    rows = [row for section in SECTIONS for row in section.rows]
    assert len(rows) == len(set(rows))


def test_results_come_out_of_their_files_as_they_went_in(tmp_path: Path) -> None:
    results = [Result("push: orderly", JAVA_4, outcome, "a.py") for outcome in Outcome]
    save(results[:2], tmp_path / "a.json")
    save(results[2:], tmp_path / "b.json")
    assert load(tmp_path) == results
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_the_document_is_true(request: pytest.FixtureRequest) -> None:
    saved = os.environ.get(RESULTS)
    if saved is None and request.config.stash[PARTIAL]:
        pytest.skip("not all interop tests ran in this process")
    results = load(Path(saved)) if saved is not None else request.config.stash[COLLECTED]
    text = render(results)
    if os.environ.get(WRITE):
        DOCUMENT.write_text(text)
    apart = {place for section in SECTIONS for place in section.apart}
    left_out = [r for r in results if r.outcome is Outcome.SKIPPED and (r.row, r.column) not in apart]
    if left_out or not results:
        pytest.skip("not all interop tests ran")
    assert DOCUMENT.read_text() == text, "docs/compatibility.md: run python -m tests.interop.compatibility"
