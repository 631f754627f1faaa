"""Processes that die around the commits of blocks by chance. The long version is ``python -m tests.sql.blocks.run
--kills 300``."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sql.blocks.grounds import grounds
from tests.sql.blocks.kills import Kills
from tests.sql.blocks.sites import WAYS, combinations
from tests.sql.databases import Place

KINDS = ["postgresql", "sqlite"]
KILLS = 22
"""Two of each way in on each of these databases, about."""


@pytest.mark.pure("a step of a local transaction is replaced in the service")
@pytest.mark.slow
def test_a_block_whose_process_dies_leaves_row_and_message_equal(
    database_server: Callable[[str], Place], tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    made = grounds(KINDS, database_server, tmp_path)
    try:
        outcome = Kills(made, tmp_path).run(combinations(list(WAYS), KINDS), KILLS, seed)
    finally:
        for ground in made.values():
            ground.drop()
    assert outcome.killed.total() > 0
    assert not outcome.violations, "\n".join(one.text() for one in outcome.violations)
