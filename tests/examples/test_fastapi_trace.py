"""The example of examples/fastapi_trace: its own test, and what docs/tracing.md prints of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "fastapi_trace"


def _run(*command: str) -> str:
    paths = os.pathsep.join([str(ROOT / "src"), str(EXAMPLE), *sys.path])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command], cwd=EXAMPLE, env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_test_of_the_example_passes() -> None:
    _run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE))


@pytest.mark.slow
def test_the_document_shows_what_the_example_prints() -> None:
    printed = _run("show.py")
    assert f"```text\n{printed}```" in (ROOT / "docs" / "tracing.md").read_text(), printed


def test_the_example_is_short() -> None:
    assert sum(len(path.read_text().splitlines()) for path in EXAMPLE.glob("*.py")) < 200
