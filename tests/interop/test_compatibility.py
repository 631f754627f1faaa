"""The document says what the tests of this run have shown. This file comes last (conftest.py)."""

from __future__ import annotations

import os

import pytest

from tests.interop.compatibility import DOCUMENT, WRITE, Outcome, Result, render
from tests.interop.conftest import PARTIAL, RESULTS, told_beside
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


def test_the_document_is_true(request: pytest.FixtureRequest) -> None:
    if request.config.stash[PARTIAL]:
        pytest.skip("not all interop tests ran")
    results = [*request.config.stash[RESULTS], *told_beside()]
    text = render(results)
    if os.environ.get(WRITE):
        DOCUMENT.write_text(text)
    apart = {place for section in SECTIONS for place in section.apart}
    left_out = [r for r in results if r.outcome is Outcome.SKIPPED and (r.row, r.column) not in apart]
    if left_out or not results:
        pytest.skip("not all interop tests ran")
    assert DOCUMENT.read_text() == text, "docs/compatibility.md: run python -m tests.interop.compatibility"
