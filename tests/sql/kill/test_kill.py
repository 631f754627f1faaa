"""The short version of ``python -m tests.sql.kill.run``: every step once or more often, on every database that is here."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.sql.kill import points
from tests.sql.kill.databases import KINDS, missing
from tests.sql.kill.run import Run

pytestmark = [pytest.mark.kill, pytest.mark.slow]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_rows_and_messages_agree_wherever_a_process_dies(kind: str, tmp_path: Path) -> None:
    if (reason := missing(kind)) is not None:
        pytest.skip(reason)
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    outcome = Run(kind, None, seed, tmp_path, print).run(kills=3 * len(points.SERVICE), server_kills=2)
    assert outcome.violations == []
    assert outcome.paid > 0
    assert set(outcome.kills) >= set(points.SERVICE)
