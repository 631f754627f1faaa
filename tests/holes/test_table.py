"""docs/holes.md has a row for every hole, and the rows say what the tests show."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.holes.case import APACHE_VERSIONS, NotRepeated

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NUMBERS = [str(number) for number in range(1, 36)] + [f"X{number}" for number in range(1, 8)]
COLUMNS = ("hole", "wrong", "ours", "tests", "mutants", *APACHE_VERSIONS)


def _rows() -> dict[str, dict[str, str]]:
    rows = {}
    for line in (ROOT / "docs" / "holes.md").read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("| ") and cells[0] in NUMBERS:
            assert len(cells) == len(COLUMNS), f"row {cells[0]} has {len(cells)} cells"
            assert cells[0] not in rows, f"two rows {cells[0]}"
            rows[cells[0]] = dict(zip(COLUMNS, cells, strict=True))
    return rows


def test_every_hole_has_a_row() -> None:
    assert list(_rows()) == NUMBERS
    for number, row in _rows().items():
        assert row["wrong"] and row["ours"], f"row {number}: what goes wrong, and what we do about it"


def test_every_test_a_row_names_exists() -> None:
    for number, row in _rows().items():
        for name in re.findall(r"`([^`]*test_\w+)(?:\.py)?(?:::(\w+))?`", row["tests"]):
            path, function = name
            found = [file for folder in ("holes", "") for file in (ROOT / "tests" / folder).glob(f"{path}.py")]
            assert found, f"row {number}: there is no {path}.py"
            assert not function or f"def {function}(" in found[0].read_text(), f"row {number}: no {function}"


@pytest.mark.parametrize("path", sorted(HERE.glob("test_hole_*.py")), ids=lambda path: path.stem)
def test_the_row_says_what_the_test_shows(path: Path) -> None:
    number = path.stem.split("_")[2].upper().lstrip("0")
    row = _rows()[number]
    assert f"`{path.stem}`" in row["tests"]
    for case in getattr(importlib.import_module(f"tests.holes.{path.stem}"), "CASES", ()):
        for mutant in case.mutants:
            assert mutant.name in row["mutants"], f"row {number} does not name the mutant {mutant.name!r}"
        if not isinstance(case.apache, NotRepeated):
            for version in APACHE_VERSIONS:
                said = case.apache[version].value
                assert said in row[version], f"row {number} does not say of Apache {version}: {said} ({case.name})"
