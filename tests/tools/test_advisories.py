"""What the stage lint says of known security problems, and what when it cannot ask."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "advisories.py"


@pytest.fixture(scope="module")
def advisories() -> ModuleType:
    spec = importlib.util.spec_from_file_location("advisories", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_problem_fails_and_is_named(advisories: ModuleType) -> None:
    problem = {"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": [], "description": "bad"}
    good = {"name": "good", "version": "1", "vulns": []}
    output = json.dumps({"dependencies": [{"name": "worse", "version": "2.0", "vulns": [problem]}, good], "fixes": []})
    passed, lines = advisories.verdict(output)
    assert not passed and lines[0] == "worse 2.0: PYSEC-1, mended in 2.1"


def test_packages_without_advisories_pass(advisories: ModuleType) -> None:
    packages = [{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "unknown"}]
    assert advisories.verdict(json.dumps({"dependencies": packages})) == (
        True,
        ["advisories: none for 1 packages; 1 not checked"],
    )


@pytest.mark.parametrize("output", ["", "Traceback", "[]", "{}", "null"])
def test_without_a_network_it_says_so_and_passes(advisories: ModuleType, output: str) -> None:
    passed, lines = advisories.verdict(output)
    assert passed and "cannot be reached from here" in lines[0]
