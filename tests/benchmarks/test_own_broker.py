"""Which build of our broker is started."""

from __future__ import annotations

import json
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from benchmarks.apache import NotPossible
from benchmarks.own_broker import compiled_environment


def build(directory: Path, python: str) -> Path:
    directory.mkdir()
    (directory / "manifest.json").write_text(json.dumps({"python": python, "sources": {}}))
    return directory


def test_the_build_of_run_py_is_found(tmp_path: Path) -> None:
    made, current = build(tmp_path / "made", EXTENSION_SUFFIXES[0]), tmp_path / "current"
    current.write_text(f"{made}\n")
    assert compiled_environment({}, current) == {"GANTRY_PURE": None, "GANTRY_COMPILED": str(made)}


def test_a_build_that_is_named_is_preferred(tmp_path: Path) -> None:
    made = build(tmp_path / "made", EXTENSION_SUFFIXES[0])
    environment = {"GANTRY_PURE": "1", "GANTRY_COMPILED": str(made)}
    assert compiled_environment(environment, tmp_path / "nothing") == {
        "GANTRY_PURE": None,
        "GANTRY_COMPILED": str(made),
    }


def test_a_build_of_other_sources_is_refused(tmp_path: Path) -> None:
    made = build(tmp_path / "made", ".cpython-20")
    with pytest.raises(NotPossible, match=r"made for another Python; make one with 'python3 run\.py compile'"):
        compiled_environment({"GANTRY_COMPILED": str(made)})
