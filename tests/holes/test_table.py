"""docs/holes.md has a row for every hole, and the rows agree with the tests."""

from __future__ import annotations

import re

from tests.holes.table import HERE, NUMBERS, PAGE, page, rows


def test_every_hole_has_a_row() -> None:
    found = rows(PAGE.read_text())
    assert list(found) == NUMBERS
    for number, row in found.items():
        assert row["wrong"] and row["ours"], f"row {number}: what goes wrong, and what we do about it"


def test_every_test_a_row_names_exists() -> None:
    for number, row in rows(PAGE.read_text()).items():
        for name in re.findall(r"`(test_\w+)`", row["tests"]):
            assert (HERE / f"{name}.py").exists(), f"row {number}: there is no {name}.py"


def test_the_page_says_what_the_tests_show() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "run: python3 -m tests.holes.table"
