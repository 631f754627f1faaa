"""The examples run as a reader would run them, tell their story and end well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def tell(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent / "src"), *sys.path])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.slow
def test_bank_transfer_is_decided_by_check_back() -> None:
    story = tell("bank_transfer.py")
    assert "Alice sends 100: UNKNOWN, not decided yet" in story
    assert "Alice sends 5000: ROLLBACK, decided" in story
    assert "what became of the transfer of 100?  database says: COMMIT" in story
    assert "what became of the transfer of 50?  database says: ROLLBACK" in story
    assert "Alice has 900, Bob has 100, together 1000." in story


@pytest.mark.slow
def test_order_payment_reaches_every_service_once() -> None:
    story = tell("order_payment.py")
    assert "order o-3 (99): ROLLBACK" in story and "ship o-3" not in story
    assert "order o-4 (45): UNKNOWN" in story and "check-back: order o-4 is paid" in story
    for order in ("o-1", "o-2", "o-4", "o-5"):
        assert story.count(f"logistics: ship {order}") == story.count(f"cart: cleared after {order}") == 1


@pytest.mark.parametrize("name", ["bank_transfer.py", "order_payment.py", "own_server.py"])
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 100


def test_help_says_what_the_example_shows() -> None:
    assert "Money moves between two banks" in tell("bank_transfer.py", "--help")
