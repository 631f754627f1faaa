"""The harness finds mechanisms that are broken on purpose, and plays a block again from its text."""

from __future__ import annotations

import json
import random

import pytest

from tests.sql.blocks.conftest import Harnesses
from tests.sql.blocks.known import KNOWN
from tests.sql.blocks.mutations import MUTATIONS

MOST = 400
"""Blocks within which a broken mechanism is found."""


@pytest.mark.slow
@pytest.mark.pure("a mechanism is replaced while it runs")
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_mechanism_is_found(harness_on: Harnesses, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutate, verdict = MUTATIONS[name]
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    mutate(monkeypatch)
    harness, tried = harness_on("sqlite"), 0
    monkeypatch.setattr(harness, "settle_s", 1.0)
    while tried < MOST:
        outcome = harness.run([("connections", "sqlite"), ("sessions", "sqlite")], 50, seed + tried)
        tried += outcome.tried
        if any(one.verdict == verdict for one in outcome.violations):
            return
    pytest.fail(f"{verdict} was not found within {tried} blocks of seed {seed}")


def test_a_block_can_be_played_again_from_its_text() -> None:
    for block in KNOWN:
        again = json.loads(json.dumps(block.as_json()))
        assert type(block).from_json(again) == block
