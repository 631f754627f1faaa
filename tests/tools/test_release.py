"""The trial of a release: what it reads, in which order it goes, what it refuses.

The long run is the command itself: ``python -m tools.release``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools.release import commands, texts
from tools.release.steps import Failed, Outcome, Result, Step, carry_out, succeeded, table
from tools.release.trial import Trial

ROOT = Path(__file__).resolve().parents[2]
PROJECT = texts.project_of((ROOT / "pyproject.toml").read_text("utf-8"))


def project(*, build: list[str], classifiers: list[str], requires: str = ">=3.11") -> dict[str, Any]:
    return {
        "project": {
            "requires-python": requires,
            "classifiers": [f"Programming Language :: Python :: {python}" for python in classifiers],
        },
        "tool": {"cibuildwheel": {"build": build}},
    }


def test_the_wheels_are_made_for_the_pythons_that_the_package_names() -> None:
    assert texts.pythons_of(PROJECT) == ["3.11", "3.12", "3.13", "3.14"]


@pytest.mark.parametrize(
    "given, said",
    [
        (
            project(build=["cp311-*"], classifiers=["3", "3.11", "3.12"]),
            "the classifiers of pyproject.toml name 3.11, 3.12",
        ),
        (project(build=["cp311-*"], classifiers=["3.11"], requires=">=3.10"), "begin with the same Python"),
        (project(build=["cp311-*"], classifiers=["3.11"], requires=">=3.12"), "begin with the same Python"),
        (project(build=["cp3*"], classifiers=["3.11"]), "'cp3*', which is not a valid pattern"),
    ],
)
def test_pythons_that_disagree_are_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Failed) as error:
        texts.pythons_of(given)
    assert said in str(error.value)


def test_the_version_of_this_checkout_is_in_both_places_and_in_the_changelog() -> None:
    version = texts.version_of(PROJECT, (ROOT / "src/gantrymq/__init__.py").read_text("utf-8"))
    assert texts.changelog_date((ROOT / "CHANGELOG.md").read_text("utf-8"), version, rehearsal=True)


@pytest.mark.parametrize(
    "asked, said",
    [
        (lambda: texts.version_of(PROJECT, '__version__ = "9.9.9"\n'), "write the same one into both"),
        (lambda: texts.version_of(PROJECT, ""), "has no line __version__"),
        (lambda: texts.changelog_date("# Changelog\n\n## 1.0.0, 2026-01-31\n", "1.0.1", False), "no section of 1.0.1"),
        (lambda: texts.changelog_date("## 1.0.0, unreleased\n", "1.0.0", False), "write the date of the release"),
        (lambda: texts.artifacts_of(["gantrymq-1.0.0.tar.gz"], "1.0.0"), "gantrymq-1.0.0-py3-none-any.whl"),
        (lambda: texts.next_steps("# no list"), "lists the next steps"),
        (lambda: texts.project_of("version ="), "is not valid TOML"),
    ],
)
def test_texts_that_do_not_fit_are_refused(asked: Callable[[], object], said: str) -> None:
    with pytest.raises(Failed) as error:
        asked()
    assert said in str(error.value)


def test_a_dated_section_is_found() -> None:
    assert texts.changelog_date("# Changelog\n\n## 1.0.0, 2026-01-31\n", "1.0.0", rehearsal=False) == "2026-01-31"


def test_the_next_steps_are_those_of_the_page() -> None:
    steps = texts.next_steps((ROOT / "docs" / "releasing.md").read_text("utf-8"))
    assert len(steps) == 5
    assert steps[0].startswith("`cibuildwheel`") and steps[0].endswith("in `dist/`.")
    assert "twine upload" in steps[2] and "tests.upgrade.run golden" in steps[-1]


def fails() -> str:
    raise Failed("no room\nsecond line")


def test_a_failure_stops_only_what_needs_that_step() -> None:
    said: list[str] = []
    steps = [
        Step("first", fails), Step("second", lambda: "of first", ("first",)), Step("third", lambda: "x" * 100),
        Step("fourth", lambda: "", ("second", "third")),
    ]  # fmt: skip
    results = carry_out(steps, said.append)
    assert [result.outcome for result in results] == [
        Outcome.FAILED, Outcome.NOT_TRIED, Outcome.PASSED, Outcome.NOT_TRIED,
    ]  # fmt: skip
    assert said == ["1/4 first ...", "    FAILED: no room\nsecond line", "3/4 third ...", f"    passed: {'x' * 100}"]
    assert not succeeded(results) and succeeded(results[2:3])


def test_the_table_has_a_line_for_each_step() -> None:
    shown = table([
        Result("build", Outcome.PASSED, "ok", 12.34), Result("texts", Outcome.FAILED, "a\nb", 0.0),
        Result("keep it", Outcome.NOT_TRIED, "x" * 100, 0.0),
    ])  # fmt: skip
    assert shown.splitlines() == [
        "step     outcome    seconds",
        "build    passed        12.3  ok",
        "texts    FAILED         0.0  a",
        f"keep it  not tried      0.0  {'x' * 57}...",
    ]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small one, with the tools of this checkout."""
    root = tmp_path / "repository"
    shutil.copytree(
        ROOT / "tools" / "release", root / "tools" / "release", ignore=shutil.ignore_patterns("__pycache__")
    )
    (root / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"))
    (root / ".gitignore").write_text("__pycache__/\n")
    author = ("-c", "user.name=tests", "-c", "user.email=tests@example.com")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


def test_a_dirty_tree_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "new.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "tools.release", "--rehearsal"],
        cwd=repository, capture_output=True, text=True, timeout=120, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "commit them, or put them away with git stash -u\n?? new.py" in done.stdout
    assert re.search(r"(?m)^build +not tried", done.stdout)
    assert "nothing is to be uploaded" in done.stdout
    assert not list(tmp_path.glob("gantry-release-*"))


def test_files_of_an_earlier_build_are_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "gantrymq-0.0.9.tar.gz").write_bytes(b"")
    with pytest.raises(Failed, match=r"gantrymq-0\.0\.9\.tar\.gz"):
        Trial(repository, tmp_path, tmp_path / "dist").tree_is_clean()


def test_a_command_that_fails_says_its_last_lines(tmp_path: Path) -> None:
    program = "import sys; print(*range(100), sep='\\n'); sys.exit(3)"
    with pytest.raises(Failed) as error:
        commands.run([sys.executable, "-c", program], tmp_path)
    assert str(error.value).startswith("exit status 3 of: ") and str(error.value).endswith("\n98\n99")
    with pytest.raises(Failed, match="cannot be started"):
        commands.run([tmp_path / "missing"], tmp_path)


def test_variables_of_the_caller_do_not_reach_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "src")
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:9876")
    monkeypatch.setenv("PIP_INDEX_URL", "https://localhost/simple")
    seen = commands.environment()
    assert not {"PYTHONPATH", "NAMESRV_ADDR"} & seen.keys() and "PIP_INDEX_URL" in seen


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_trial_leaves_nothing(repository: Path, tmp_path: Path, number: int, status: int) -> None:
    """The steps are replaced by a program that says its process id and waits: the signal comes then."""
    note = tmp_path / "process"
    waits = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid()) + ' '); time.sleep(600)"
    (repository / "tools" / "release" / "trial.py").write_text(
        "import sys\nfrom .steps import Step\nfrom .commands import run\n"
        "class Trial:\n"
        "    def __init__(self, root, scratch, *more): self.scratch = scratch\n"
        f"    def steps(self): return [Step('wait', lambda: run([sys.executable, '-c', {waits!r}], self.scratch))]\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.release", "--rehearsal"],
        cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    with process:
        until(lambda: note.exists() and note.read_text().endswith(" "))
        process.send_signal(number)
        process.communicate(timeout=120)
    assert process.returncode == status
    assert not list(tmp_path.glob("gantry-release-*"))
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, "it did not happen within 120 s"
        time.sleep(0.02)
