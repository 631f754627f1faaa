"""Hole 25: while their broker is down, half messages of Apache 5.x "escape" to another broker, which may skip them
or settle them twice.

GantryMQ has no such escape, so it does not have this hole. The test shows what holds instead: a half message stays on
the broker that stored it. It waits while that broker is down; afterwards it is checked, and has one outcome.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.message.transaction import Resolution
from tests.holes.actors import always
from tests.holes.case import Case, Mutant, NotRepeated, Observed
from tests.holes.stage import INTERVAL_S, OurStage, Stage

TRIES = 3
AWAY_S = 60.0


async def _broker_away(stage: Stage) -> Observed:
    assert isinstance(stage, OurStage)
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    stage.kill()
    await stage.sleep(AWAY_S)
    await stage.start()
    producer = await stage.producer(producer.group)
    producer.answer = always(Resolution.COMMIT)
    await stage.sleep(stage.timeout_s + 2 * INTERVAL_S)
    keys = await stage.keys(topic)
    return Observed(sum(keys.count(half.key) != 1 for half in halves), TRIES, f"{len(keys)} delivered")


def _forget(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionCoordinator, "rebuild", lambda _coordinator, _ahead=None: None)


CASES = [
    Case(
        "a broker that is away", _broker_away, (Mutant("the open halves of the store", _forget),),
        NotRepeated("needs brokers that act for each other; not tried"),
    ),
]  # fmt: skip


def test_hole_25_halves_stay(played: Callable[[], None]) -> None:
    played()
