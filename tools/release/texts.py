"""What the files of a commit say about its version: pure functions of their texts. Each raises Failed."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from typing import Any, Final

from packaging.specifiers import SpecifierSet

from .steps import Failed

_VERSION: Final = re.compile(r'(?m)^__version__ = "([^"]+)"$')
_SECTION: Final = re.compile(r"(?m)^## (\S+?), (.+)$")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_PYTHON: Final = "Programming Language :: Python :: 3."
BY_HAND: Final = "## By hand, afterwards"
"""The section of docs/releasing.md that this tool prints at its end."""


def version_of(project: dict[str, Any], package: str) -> str:
    """The version, which ``pyproject.toml`` and the text of ``__init__.py`` have in common."""
    declared = str(project["project"]["version"])
    found = _VERSION.search(package)
    if found is None:
        raise Failed('src/gantrymq/__init__.py has no line __version__ = "...": add it')
    if found[1] != declared:
        raise Failed(
            f"pyproject.toml has the version {declared}, but src/gantrymq/__init__.py has {found[1]}:"
            " write the same one into both"
        )
    return declared


def changelog_date(changelog: str, version: str, rehearsal: bool) -> str:
    """What stands behind the version in its heading: a date, and in a rehearsal anything."""
    sections = dict(_SECTION.findall(changelog))
    if version not in sections:
        raise Failed(f"CHANGELOG.md has no section of {version}: add a line like '## {version}, 2026-01-31'")
    said: str = sections[version]
    if not rehearsal and not _DATE.fullmatch(said):
        raise Failed(
            f"CHANGELOG.md says '## {version}, {said}': write the date of the release instead of '{said}'"
            " and commit, or call this with --rehearsal"
        )
    return said


def pythons_of(project: dict[str, Any]) -> list[str]:
    """The Pythons of the compiled wheels, by ``[tool.cibuildwheel]``, which classifiers and requires-python have too.

    For example ``["3.11", "3.12"]``.
    """
    built = [_python_of(pattern) for pattern in project["tool"]["cibuildwheel"]["build"]]
    classifiers = project["project"]["classifiers"]
    classified = [text.removeprefix("Programming Language :: Python :: ") for text in classifiers if _PYTHON in text]
    if built != classified:
        raise Failed(
            f"cibuildwheel makes wheels for {_listed(built)}, but the classifiers of pyproject.toml name"
            f" {_listed(classified)}: make the two lists equal"
        )
    allowed = SpecifierSet(project["project"]["requires-python"])
    oldest = _minor(built[0])
    wrong = [python for python in built if python not in allowed]
    if wrong or f"3.{oldest - 1}.99" in allowed:
        raise Failed(
            f"requires-python is '{allowed}', but cibuildwheel makes wheels for {_listed(built)}:"
            " let both begin with the same Python"
        )
    return built


def _python_of(pattern: str) -> str:
    """``cp311-*`` is ``3.11``."""
    found = re.fullmatch(r"cp3(\d+)-\*", pattern)
    if found is None:
        raise Failed(
            f"[tool.cibuildwheel] build has '{pattern}', which is not a valid pattern: write one like 'cp311-*'"
        )
    return f"3.{found[1]}"


def _minor(python: str) -> int:
    return int(python.split(".")[1])


def _listed(pythons: list[str]) -> str:
    return ", ".join(pythons) or "none"


def artifacts_of(names: list[str], version: str) -> tuple[str, str]:
    """The pure wheel and the source distribution among the files that a build left."""
    wanted = (f"gantrymq-{version}-py3-none-any.whl", f"gantrymq-{version}.tar.gz")
    if sorted(names) != sorted(wanted):
        raise Failed(f"the build made {', '.join(sorted(names)) or 'nothing'}, and not {' and '.join(wanted)}")
    return wanted


def left_over(names: list[str]) -> list[str]:
    """Distributions of an earlier build; an upload of ``dist/*`` would take them, too."""
    return sorted(name for name in names if fnmatch(name, "*.whl") or fnmatch(name, "*.tar.gz"))


def next_steps(checklist: str) -> list[str]:
    """The numbered steps of the section "By hand, afterwards"; each with its further lines."""
    _, found, behind = checklist.partition(BY_HAND)
    if not found:
        raise Failed(f"docs/releasing.md has no section '{BY_HAND}', which lists the next steps: add it")
    section = behind.split("\n## ")[0]
    steps = re.findall(r"(?ms)^\d+\. (.+?)(?=^\d+\. |^$|\Z)", section)
    return [" ".join(step.split()) for step in steps]


def project_of(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Failed(f"pyproject.toml is not valid TOML: {error}") from None
