"""Each kind of change touches few rooms."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.house.changes import CHANGES, Change, rooms

from tools.house import PACKAGE


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.title)
def test_a_change_touches_few_rooms(change: Change) -> None:
    touched = rooms(change, PACKAGE)
    assert 0 < len(touched) <= change.limit, touched


def test_names_texts_and_templates_count_and_comments_do_not(tmp_path: Path) -> None:
    for room, name, text in (
        ("a", "x.py", "ZSTD = 1"),
        ("b", "x.py", "def f(z):\n    return z.ZSTD"),
        ("c", "x.py", 'KINDS = {"ZSTD": 1}'),
        ("d", "x.html", '<a href="ZSTD">'),
        ("e", "x.py", '"""ZSTD"""\n\n# ZSTD\n\n\ndef f():\n    """ZSTD"""'),
        ("f", "x.py", "from a.x import ZSTD"),
    ):
        (tmp_path / room).mkdir()
        (tmp_path / room / name).write_text(text)
    assert rooms(Change("a compression", 4, "^ZSTD$"), tmp_path) == ["a", "b", "c", "d"]


def test_a_value_counts_where_it_is_given(tmp_path: Path) -> None:
    for room, text in (("a", "MAX: int = 4 * 1024"), ("b", "MAX = sizes.MAX"), ("c", "print(MAX)"), ("d", "MAX = 5")):
        (tmp_path / room).mkdir()
        (tmp_path / room / "x.py").write_text(text)
    assert rooms(Change("a limit", 1, "^MAX$", given=True), tmp_path) == ["a", "d"]
