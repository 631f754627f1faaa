"""A message needs no more files than a person can keep in mind who follows its trip."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES_TO_READ = {"check-back": 22, "pop and acknowledgement": 14}
"""At most so many; see the docstring of ``tools.trips`` for what counts."""
pytestmark = pytest.mark.pure("calls of compiled functions cannot be counted")


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, int]]:
    """In a process of its own: what other tests left in this one must not be counted."""
    command = [sys.executable, "-m", "tools.trips", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    figures: dict[str, dict[str, int]] = json.loads(done.stdout)
    return figures


def test_every_trip_is_made(found: dict[str, dict[str, int]]) -> None:
    assert list(found) == ["send", "end", "pull", "check-back", "pop and acknowledgement"]
    assert all(trip["calls"] >= trip["files"] > 10 for trip in found.values())


@pytest.mark.parametrize("name", FILES_TO_READ)
def test_no_trip_needs_more_files_than_its_limit(name: str, found: dict[str, dict[str, int]]) -> None:
    assert found[name]["to read"] <= FILES_TO_READ[name]
