"""A simulation that finds nothing in a broken broker proves nothing about a whole one.

All mutations: ``python -m tests.simulation.mutations.run --seeds 300``; docs/simulation.md has the table.
"""

from __future__ import annotations

import pytest

from gantrymq.simulation.run import Plan, run
from tests.simulation.mutations.run import MUTATIONS, broken, find

pytestmark = pytest.mark.pure("the broker is broken while it runs")

FAST = ("a rollback commits", "a commit rolls back", "halves are visible", "the sync is skipped",
         "immunity is ignored")  # fmt: skip
"""Those that show in many seeds: which seed shows a rare one changes with every change of the client or the broker."""
SEEDS = 15


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_a_broken_broker_is_found(name: str) -> None:
    (mutation,) = [mutation for mutation in MUTATIONS if mutation.name == name]
    assert find(mutation, range(SEEDS)) is not None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_ends_with_its_block(mutation: object) -> None:
    with broken(mutation):  # type: ignore[arg-type]
        pass


def test_without_a_mutation_the_same_seeds_are_good() -> None:
    assert run(0, Plan()).good
