"""The list of second ways is the one of the sources, and its page names them all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from benchmarks.second_ways import WAYS, Way, edited

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "second-ways.md"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_way_can_be_switched_off_where_it_is(way: Way) -> None:
    text = (ROOT / "src" / "gantrymq" / way.file).read_text()
    ast.parse(edited(way, text))


def test_two_ways_of_one_file_can_be_switched() -> None:
    for name in {way.file for way in WAYS}:
        text = (ROOT / "src" / "gantrymq" / name).read_text()
        for way in WAYS:
            if way.file == name:
                text = edited(way, text)
        ast.parse(text)


def test_the_page_names_every_way_and_its_file() -> None:
    page = PAGE.read_text()
    missing = [way.name for way in WAYS if f"| {way.name} | `{way.file}` |" not in page]
    assert not missing
