"""Updates docs/holes.md from the tests. Run ``python3 -m tests.holes.table`` after a test was added or changed.

These columns are written by hand: the number, the fault, our solution, and observations of Apache's brokers without a
test (in *italics*). The tests provide: their names, the fixes without which they fail, and the results of Apache's
brokers.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from tests.holes.case import APACHE_VERSIONS, Case, NotRepeated

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "holes.md"
NUMBERS = [str(number) for number in range(1, 36)] + [f"X{number}" for number in range(1, 8)]
COLUMNS = ("hole", "wrong", "ours", "tests", "mutants", *APACHE_VERSIONS)
NOT_REPEATED = "## Seen by hand"


def cells(line: str) -> list[str]:
    """The cells of a line of a table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def rows(text: str) -> dict[str, dict[str, str]]:
    """The table's rows by the number of the hole."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("| ") and (row := cells(line))[0] in NUMBERS:
            assert len(row) == len(COLUMNS), f"row {row[0]} has {len(row)} cells"
            assert row[0] not in found, f"two rows {row[0]}"
            found[row[0]] = dict(zip(COLUMNS, row, strict=True))
    return found


def modules(number: str) -> list[str]:
    """The test modules of a hole."""
    name = number.lower() if number.startswith("X") else f"{int(number):02}"
    return sorted(path.stem for path in HERE.glob(f"test_hole_{name}_*.py"))


def cases(number: str) -> list[Case]:
    return [
        case
        for name in modules(number)
        for case in getattr(importlib.import_module(f"tests.holes.{name}"), "CASES", ())
    ]


def filled(row: dict[str, str]) -> dict[str, str]:
    """A row with the columns that the tests provide."""
    names, found = modules(row["hole"]), cases(row["hole"])
    if names:
        row = row | {"tests": ", ".join(f"`{name}`" for name in names)}
    if found:
        mutants = dict.fromkeys(mutant.name for case in found for mutant in case.mutants)
        row = (
            row | {"mutants": "; ".join(mutants)} | {version: _observed(found, version) for version in APACHE_VERSIONS}
        )
        for version in APACHE_VERSIONS:
            row[version] = row[version] or rows(PAGE.read_text())[row["hole"]][version]
    return row


def _observed(found: list[Case], version: str) -> str:
    said = {case.name: case.apache[version].value for case in found if not isinstance(case.apache, NotRepeated)}
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return "; ".join(f"{name}: {value}" for name, value in said.items())


def page(text: str) -> str:
    """The text that docs/holes.md should have."""
    by_number = {number: filled(row) for number, row in rows(text).items()}
    lines = [
        f"| {' | '.join(by_number[cells(line)[0]].values())} |"
        if line.startswith("| ") and cells(line)[0] in by_number
        else line
        for line in text.partition(NOT_REPEATED)[0].rstrip().splitlines()
    ]
    lines += [
        "",
        NOT_REPEATED,
        "",
        "These scenarios are not repeated by the tests on Apache's brokers. This is what is known about them:",
        "",
    ]
    reasons = {
        (number, case.apache.why): None
        for number in by_number
        for case in cases(number)
        if isinstance(case.apache, NotRepeated)
    }
    lines += [f"* **{number}**: {why}" for number, why in reasons]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
