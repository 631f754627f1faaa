"""Rows and messages agree, whatever a block does: blocks by chance, and those that once broke a rule.

The long version is ``python -m tests.sql.blocks.run``.
"""

from __future__ import annotations

import pytest

from tests.sql.blocks.conftest import Harnesses
from tests.sql.blocks.harness import Outcome, batches
from tests.sql.blocks.known import KNOWN
from tests.sql.blocks.sites import WAYS, combinations

BY_CHANCE = {"postgresql": 16, "mariadb": 12, "sqlite": 50}
"""Blocks of each way in."""
SEED = 27
"""Always the same: what another seed finds must be looked at by a person, and must not stop somebody else's change. The
command draws a new one each time."""


def check(outcome: Outcome) -> None:
    if outcome.violations:
        pytest.fail("\n\n".join(one.text() for one in outcome.violations))


@pytest.mark.slow
@pytest.mark.parametrize("kind", BY_CHANCE)
def test_blocks_that_once_broke_a_rule(harness_on: Harnesses, kind: str) -> None:
    harness, outcome = harness_on(kind), Outcome()
    for batch in batches([block for block in KNOWN if block.database == kind]):
        harness.play(batch, outcome)
    check(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BY_CHANCE)
def test_blocks_by_chance(harness_on: Harnesses, kind: str) -> None:
    print(f"seed {SEED}")
    harness, outcome = harness_on(kind), Outcome()
    for pair in combinations(list(WAYS), [kind]):
        outcome.violations += harness.run([pair], BY_CHANCE[kind], SEED).violations
    check(outcome)
