"""Which core runs: a compiled core of other sources never runs, and pure Python can be asked for."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import gantrymq
from gantrymq import build_info

PACKAGE = Path(gantrymq.__file__).parent


def manifest(directory: Path, **changed: object) -> Path:
    sources = {"errors.py": hashlib.sha256((PACKAGE / "errors.py").read_bytes()).hexdigest()}
    (directory / "manifest.json").write_text(
        json.dumps({"python": EXTENSION_SUFFIXES[0], "sources": sources} | changed)
    )
    return directory


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key not in (build_info.PURE, build_info.COMPILED)}
    return subprocess.run([sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True)


def test_a_core_of_the_same_sources_may_run(tmp_path: Path) -> None:
    assert build_info.why_unusable(manifest(tmp_path)) == ""


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"sources": {"errors.py": "0" * 64}}, "errors.py has changed since it was compiled"),
        ({"python": ".cpython-39-other.so"}, "it was made for another Python"),
        ({"sources": {"gone.py": "0" * 64}}, "FileNotFoundError"),
    ],
)
def test_a_core_of_anything_else_must_not_run(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    assert said in build_info.why_unusable(manifest(tmp_path, **changed))


def test_a_directory_without_a_core_is_no_core(tmp_path: Path) -> None:
    assert "FileNotFoundError" in build_info.why_unusable(tmp_path)


def test_with_a_stale_core_pure_python_runs_and_a_sentence_says_so(tmp_path: Path) -> None:
    stale = manifest(tmp_path, sources={"errors.py": "0" * 64})
    done = run("from gantrymq.build_info import build_info as b; print(b())", GANTRY_COMPILED=str(stale))
    assert done.stdout.strip() == "pure Python"
    assert "pure Python runs: errors.py has changed since it was compiled" in done.stderr


def test_nothing_is_imported_for_the_choice_unless_it_is_asked_for() -> None:
    code = "import sys, gantrymq; print('gantrymq.build_info' in sys.modules)"
    assert run(code).stdout.strip() == "False"
    assert run(code, GANTRY_PURE="1").stdout.strip() == "True"


def test_what_replaces_parts_makes_this_process_and_its_children_pure() -> None:
    code = (
        "import os; from gantrymq.build_info import require_pure as r; r('this'); import gantrymq.broker.broker as b;"
        "print(os.environ['GANTRY_PURE'], b.__file__.endswith('.py'))"
    )
    assert run(code).stdout.split() == ["1", "True"]


def test_it_is_refused_when_a_compiled_module_is_loaded_already() -> None:
    code = (
        "import sys, types; from gantrymq.build_info import require_pure as r, EXTENSION_SUFFIXES as s;"
        "sys.modules['gantrymq.x'] = m = types.ModuleType('gantrymq.x'); m.__file__ = 'x' + s[0]; r('gantry simulate')"
    )
    assert "gantry simulate replaces parts" in (said := run(code).stderr) and "Set GANTRY_PURE=1" in said
