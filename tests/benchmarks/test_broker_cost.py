"""The micro benchmark of the broker does what it says: every transaction it counts is committed."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import pytest
from benchmarks.broker_cost import ROUND, measure


@pytest.mark.parametrize(
    ("kind", "form", "one_way", "users", "copied"),
    [
        ("transaction", "binary", False, "none", False), ("transaction", "json", True, "none", False),
        ("plain", "json", False, "signed", False), ("transaction", "binary", False, "judged", False),
        ("transaction", "binary", False, "none", True),
    ],
)  # fmt: skip
def test_a_round(kind: str, form: str, one_way: bool, users: str, copied: bool, tmp_path: Path) -> None:
    chosen = argparse.Namespace(
        kind=kind, form=form, one_way=one_way, batch=32, size=128, count=ROUND, dir=str(tmp_path), users=users,
        copied=copied,
    )  # fmt: skip
    found = asyncio.run(measure(chosen, None))
    assert found["kind"] == kind
    assert isinstance(found["best_us"], float) and found["best_us"] > 0
