"""Clocks step while everything that can wait does: seeds are good, and a broker without its steady time is found.

More with ``gantry simulate --waits --seeds 0..1000``.
"""

from __future__ import annotations

from collections import Counter

import pytest

from gantrymq.simulation.waits.errands import KINDS
from gantrymq.simulation.waits.run import run
from tests.simulation.mutations.run import MUTATIONS, find

SEEDS = range(4)
BROKEN = ("waits follow the wall clock", "the monotonic clock steps, too")


@pytest.mark.slow
def test_no_wait_follows_a_clock_that_steps() -> None:
    kinds: set[str] = set()
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        result = run(seed)
        assert result.good, (seed, [*map(str, result.violations), *result.errors])
        kinds |= {event["wait"].rpartition("-")[0] for event in result.events if event["event"] == "over"}
        happened += result.injected
    assert kinds >= {kind.replace(" ", "-") for kind in KINDS}
    assert happened["clock stepped"] and happened["client's clock stepped"] and happened["stopped in order"]


@pytest.mark.slow
@pytest.mark.pure("the broker is broken while it runs")
@pytest.mark.parametrize("name", BROKEN)
def test_a_broker_whose_waits_follow_a_clock_is_found(name: str) -> None:
    (mutation,) = [mutation for mutation in MUTATIONS if mutation.name == name]
    result = find(mutation, range(mutation.within))
    assert result is not None and {violation.rule for violation in result.violations} & {
        "no wait grows",
        "no wait shrinks",
    }
