"""The runner of all checks: which stages run, what they leave out, what their programs see."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import APART

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def checks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("checks", ROOT / "tools" / "checks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_name_every_test_runs_once(checks: ModuleType) -> None:
    assert checks.stages_of([]) == ["lint", "types", "layers", "tests", "interop", "demo"]


def test_quick_stands_for_its_stages(checks: ModuleType) -> None:
    assert checks.stages_of(["quick"]) == ["lint", "types", "layers", "unit"]
    assert checks.stages_of(["types", "quick", "demo"]) == ["types", "lint", "layers", "unit", "demo"]
    assert set(checks.stages_of(["quick"])) <= set(checks.STAGES)


def test_the_marks_that_quick_leaves_out_exist_and_are_the_same_everywhere(checks: ModuleType) -> None:
    marks = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    left_out = {text.removeprefix("not ") for text in checks.UNIT}
    assert left_out == set(APART)
    assert left_out <= {mark.split(":")[0] for mark in marks}


def test_the_compiled_core_is_not_tested_unless_it_is_named(checks: ModuleType) -> None:
    assert {"compiled", "compiled-interop"} <= checks.ONLY_WHEN_NAMED


def test_python_keeps_its_byte_code(checks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environment = checks.environment()
    assert "PYTHONDONTWRITEBYTECODE" not in environment
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))


def test_a_stage_that_does_not_exist_is_refused_with_those_that_do() -> None:
    command = [sys.executable, str(ROOT / "tools" / "checks.py"), "lint", "bogus"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no such stage: bogus" in done.stdout and "interop" in done.stdout and "quick" in done.stdout


def test_no_failed_test_is_run_again() -> None:
    """Neither by us nor by a plugin."""
    texts = [path.read_text() for path in (ROOT / "tools" / "checks.py", ROOT / "pyproject.toml", ROOT / ".ci" / "run")]
    assert not [text for text in texts if re.search(r"--last-failed|--lf\b|rerun|flaky", text)]
