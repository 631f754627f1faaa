"""docs/compatibility.md out of the results of the interop tests: ``python -m tests.interop.compatibility``.

The command runs all interop tests and writes the document. Every run of all of them checks that the document still
tells the truth (test_compatibility.py).
"""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.interop.features import SECTIONS, Section
from tests.interop.jars import ROOT

DOCUMENT = ROOT / "docs" / "compatibility.md"
WRITE = "GANTRY_WRITE_COMPATIBILITY"

INTRO = """\
# Compatibility

Made by `python -m tests.interop.compatibility` from the results of `tests/interop`, which runs unmodified official
clients, tools and servers; do not edit. `yes`: works, shown by the tests whose files are named in the last column.
`refused`: answered with a documented code and a reason. `not yet`: no test shows it.
"""


class Outcome(enum.Enum):
    """What one test showed."""

    WORKS = "yes"
    REFUSED = "refused"
    FAILED = "FAILS"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one test for one cell."""

    row: str
    column: str
    outcome: Outcome
    file: str


def known(row: str) -> bool:
    """Whether a row exists."""
    return any(row in section.rows for section in SECTIONS)


def render(results: Iterable[Result]) -> str:
    """The whole document."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result.row, result.column), []).append(result)
    return INTRO + "".join(_section(section, found) for section in SECTIONS)


def _section(section: Section, found: Mapping[tuple[str, str], list[Result]]) -> str:
    lines = [f"\n## {section.title}\n", section.intro, ""]
    lines.append("| | " + " | ".join(section.columns) + " | tests |")
    lines.append("|---" * (len(section.columns) + 2) + "|")
    for row in section.rows:
        cells = [_cell(section, row, column, found) for column in section.columns]
        files = sorted({result.file for column in section.columns for result in found.get((row, column), ())})
        lines.append(f"| {row} | " + " | ".join(cells) + " | " + ", ".join(f"`{file}`" for file in files) + " |")
    return "\n".join(lines) + "\n"


def _cell(section: Section, row: str, column: str, found: Mapping[tuple[str, str], list[Result]]) -> str:
    outcomes = {result.outcome for result in found.get((row, column), ())} - {Outcome.SKIPPED}
    if not outcomes:
        return section.apart.get((row, column), "not yet")
    for worst in (Outcome.FAILED, Outcome.REFUSED):
        if worst in outcomes:
            return worst.value
    return Outcome.WORKS.value


def main() -> int:
    """Run the interop tests and write the document."""
    command = [sys.executable, "-m", "pytest", "-m", "interop", "tests/interop", *sys.argv[1:]]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, WRITE: "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
