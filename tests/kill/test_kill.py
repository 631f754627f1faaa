"""Five rounds of the kill test; the long run is ``python -m tests.kill.run --rounds 50``."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.kill.rounds import run


@pytest.mark.kill
def test_g37_nothing_is_lost_doubled_or_invented_when_the_broker_is_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"repeat with: python -m tests.kill.run --rounds 5 --seed {seed}")
    outcome = asyncio.run(run(tmp_path, 5, seed, say=print))
    assert outcome.violations == []
    assert outcome.confirmed > 100
    assert outcome.checked > 0
