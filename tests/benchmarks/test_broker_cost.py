"""The micro benchmark of the broker does what it says: every transaction it counts is committed."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import pytest
from benchmarks.broker_cost import ROUND, measure


@pytest.mark.parametrize(
    ("kind", "form", "one_way", "users"),
    [
        ("transaction", "binary", False, "none"), ("transaction", "json", True, "none"),
        ("plain", "json", False, "signed"), ("transaction", "binary", False, "judged"),
    ],
)  # fmt: skip
def test_a_round(kind: str, form: str, one_way: bool, users: str, tmp_path: Path) -> None:
    chosen = argparse.Namespace(
        kind=kind, form=form, one_way=one_way, batch=32, size=128, count=ROUND, dir=str(tmp_path), users=users
    )  # fmt: skip
    found = asyncio.run(measure(chosen, None))
    assert found["kind"] == kind
    assert isinstance(found["best_us"], float) and found["best_us"] > 0
