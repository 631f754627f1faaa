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
from packaging.requirements import Requirement

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
    assert checks.stages_of([]) == ["lint", "layers", "docs", "types-and-tests", "interop", "demo"]


def test_the_tests_of_ci_are_those_of_the_stage_tests(checks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that wait for no clock run beside Spark's. They are left out of the others, and nothing else is."""
    asked: list[list[str]] = []

    def run(*command: str | Path, output: Path | None = None) -> bool:
        if output is not None:
            output.touch()
        words = [str(word) for word in command]
        asked.append(words[words.index("pytest") + 1 :] if "pytest" in words else [])
        return True

    monkeypatch.setattr(checks, "run", run)
    assert checks.STAGES["types-and-tests"]([])
    pytests = [words[words.index("-m") + 1 :] for words in asked if words]
    apart = [f"--ignore={place}" for place in checks.TIMELESS]
    interop = f"--ignore={checks.INTEROP}"
    assert sorted(pytests) == sorted([
        [f"spark and {checks.WHOLE}", "-o", "cache_dir=.pytest_cache/spark", *apart, interop],
        [f"{checks.WHOLE} and not spark", *checks.TIMELESS],
        [f"{checks.WHOLE} and not spark", interop, *apart],
    ])  # fmt: skip
    places = [ROOT / place for place in checks.TIMELESS]
    files = [file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])]
    assert len(files) > len(places) and all(place.exists() for place in places)
    assert not [file for file in files if re.search(r"mark\.spark|\bspark: Any", file.read_text())], "nothing runs them"


def test_quick_stands_for_its_stages(checks: ModuleType) -> None:
    assert checks.stages_of(["quick"]) == ["lint", "layers", "docs", "types-and-unit"]
    assert checks.stages_of(["lint", "quick", "demo"]) == ["lint", "layers", "docs", "types-and-unit", "demo"]
    assert set(checks.stages_of(["quick"])) <= set(checks.STAGES)


def test_the_marks_that_quick_leaves_out_exist_and_are_the_same_everywhere(checks: ModuleType) -> None:
    marks = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    left_out = {text.removeprefix("not ") for text in checks.UNIT}
    assert left_out == set(APART)
    assert left_out <= {mark.split(":")[0] for mark in marks}


def test_the_compiled_core_is_not_tested_unless_it_is_named(checks: ModuleType) -> None:
    assert {"compiled", "compiled-interop"} <= checks.ONLY_WHEN_NAMED


def test_the_older_spark_is_one_that_the_project_supports_and_has_a_stage_of_its_own(checks: ModuleType) -> None:
    assert "spark42" in checks.ONLY_WHEN_NAMED
    lock = checks.SPARK_42_LOCK.read_text()
    ((name, version),) = re.findall(r"(?m)^(\w+)==(\S+) +--hash=sha256:[0-9a-f]{64}$", lock)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    wanted = next(Requirement(text) for text in extras if text.startswith(name))
    assert name == "pyspark" and version.startswith("4.2.") and wanted.specifier.contains(version)


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


def test_a_program_that_takes_too_long_is_ended_and_its_test_is_named(
    checks: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "STAGE_LIMIT_SECONDS", 1)
    # No Python, whose start alone takes longer than the limit on a busy machine.
    waits = (
        "cd $GANTRY_RUNNING_TESTS; echo 'it was running tests/test_x.py::test_y since 12:00:00' > gw0;"
        "echo 'tests/test_z.py::test_a failed at z.py:3' > pytest.failed; echo one > gw0.stuck;"
        "echo one line; exec sleep 100"
    )
    assert checks.run("sh", "-c", waits) is False
    shown = capfd.readouterr().out
    assert "one line\n" in shown
    assert (
        "ended after 1 s without a result\ntests/test_z.py::test_a failed at z.py:3\n"
        "it was running tests/test_x.py::test_y since 12:00:00\n"
    ) in shown


STUCK = """
import signal, time, pytest

@pytest.mark.timeout(0.2)
def test_that_survives_its_limit():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(100)
"""


@pytest.mark.slow
def test_a_test_that_survives_its_time_limit_ends_its_process_and_says_where_it_stood(
    checks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_it.py").write_text(STUCK)
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_runtest_protocol\nfrom tests.support import watched\n"
        "watched.BEHIND_SECONDS = 0.3\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    options = ("-n", "1", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path)
    assert checks.run(sys.executable, "-m", "pytest", *options) is False
    shown = capfd.readouterr().out
    assert "test_it.py::test_that_survives_its_limit went on behind its time limit:" in shown
    assert "in test_that_survives_its_limit" in shown


def test_the_last_lines_of_a_stage_that_failed_are_shown_again_at_the_end(
    checks: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(_: list[str]) -> bool:
        return bool(checks.run(sys.executable, "-c", "import sys; print('the reason'); sys.exit(1)"))

    monkeypatch.setattr(checks, "STAGES", {"lint": fails, "types": lambda _: True})
    monkeypatch.setattr(sys, "argv", ["checks.py", "lint", "types"])
    assert checks.main() == 1
    shown = capfd.readouterr().out
    assert shown.count("the reason\n") == 2
    assert "lint failed; the last lines that it printed:\nthe reason\n" in shown
