"""The primary is killed under load, and its replica is started as primary; see ``takeover.py``."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.kill.takeover import run


@pytest.mark.kill
@pytest.mark.parametrize("way", ["forced", "planned"])
def test_a_replica_that_takes_over_has_every_answered_outcome_once(tmp_path: Path, way: str) -> None:
    """``restart`` is a part of ``forced``, but for the last step."""
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    run(tmp_path, seed, way=way)
