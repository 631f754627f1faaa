"""docs/compatibility.md out of the results of the interop tests: ``python -m tests.interop.compatibility``.

The command runs all interop tests, several groups of them at a time (groups.py), and writes the document. With
``--check`` it compares the document with the results instead, as ``python3 run.py test interop`` does. What else is
given goes to pytest.

Each group writes its results to a file in the directory that the variable GANTRY_INTEROP_RESULTS names. The last group,
the tests of the document, reads them (test_compatibility.py).
"""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.interop.features import SECTIONS, Section
from tests.interop.groups import AT_ONCE, Group
from tests.interop.jars import ROOT
from tests.interop.process import die_with_parent

DOCUMENT = ROOT / "docs" / "compatibility.md"
WRITE = "GANTRY_WRITE_COMPATIBILITY"
"""Variable with which the test of the document writes it before it compares."""
RESULTS = "GANTRY_INTEROP_RESULTS"
"""Variable that names the directory of results: written by the groups of tests, read by the tests of the document."""

YIELDING = ["nice", "-n", "5"]
"""Spark gives each Python process that it starts 10 s until it calls back, and no setting changes that. So the other
groups leave Spark the cores first."""

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


def save(results: Iterable[Result], path: Path) -> None:
    """Write the results of a group, all of them or none."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps([(r.row, r.column, r.outcome.value, r.file) for r in results]))
    part.rename(path)


def load(directory: Path) -> list[Result]:
    """What ``save`` wrote to files of a directory."""
    rows = [row for path in sorted(directory.glob("*.json")) for row in json.loads(path.read_text())]
    return [Result(row, column, Outcome(outcome), name) for row, column, outcome, name in rows]


def main() -> int:
    """Run all groups, the one of the document last. The exit status is the worst one."""
    given = [argument for argument in sys.argv[1:] if argument != "--check"]
    with tempfile.TemporaryDirectory() as directory:
        os.environ[RESULTS] = directory
        with ThreadPoolExecutor(AT_ONCE) as threads:
            groups = [group for group in Group if group is not Group.DOCUMENT]
            statuses = list(threads.map(lambda group: run(group, Path(directory), given), groups))
        if "--check" not in sys.argv[1:]:
            os.environ[WRITE] = "1"
        return max(*statuses, run(Group.DOCUMENT, Path(directory), given))


def run(group: Group, directory: Path, given: list[str]) -> int:
    """Run the tests of one group and show what pytest printed, in one piece. Its exit status."""
    log = directory / f"{group.value}.log"
    command = [] if group is Group.SPARK else list(YIELDING)
    command += [sys.executable, "-m", "pytest", "-m", "interop", "--durations=5", "-rs", "tests/interop"]
    command += ["--group", group.value, "-o", f"cache_dir=.pytest_cache/{group.value}", *given]
    begun = time.monotonic()
    with log.open("w") as output:
        status = subprocess.run(
            command, cwd=ROOT, stdout=output, stderr=output, preexec_fn=die_with_parent, check=False
        ).returncode
    ended = "passed" if status == 0 else f"FAILED with {status}"
    print(f"\n--- {group.value}: {ended} after {time.monotonic() - begun:.0f} s\n{log.read_text()}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
