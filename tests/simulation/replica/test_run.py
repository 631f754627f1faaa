"""A store that is fed the log of another one, through crashes, cuts and changes of roles; more with
``gantry simulate --replica``."""

from __future__ import annotations

import pytest

from gantrymq.simulation.replica.run import STEPS, run

SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_are_equal_after_every_step(seed: int) -> None:
    result = run(seed)
    assert result.good, f"gantry simulate --replica --seed {seed}: {[*map(str, result.violations), *result.errors]}"


def test_every_step_happens() -> None:
    happened = {name for seed in range(10) for name, count in run(seed).injected.items() if count}
    assert happened >= {*STEPS, "power cut in a cut"}
