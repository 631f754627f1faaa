"""X2: one half message stops all checks of a broker.

When the properties are a few bytes below the limit of 32,767, an Apache broker accepts the half message, but cannot
write it again to check it, because the copy has one property more. Its scan tries this for ever, and no later half
message is checked. Ours refuses the send of any message that could not be parked or resumed later, and it writes
nothing to check a half message.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.broker.operations import send_half
from gantrymq.message.transaction import Resolution
from tests.holes.actors import Half, Producer, Refused, always
from tests.holes.case import Apache, Case, Mutant, Observed, On, both
from tests.holes.stage import CHECK_MAX, INTERVAL_S, OurStage, Stage, key_of, require

LIMIT = 32_767
STEP = 8
"""Less than what a broker adds to a copy of a half."""
BEHIND = 5


async def _poisoned(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    poison = await _largest(producer, topic)
    halves = await producer.halves(topic, BEHIND)
    if isinstance(stage, OurStage):  # here it must come to the end of its checks, too
        producer.answer = always(Resolution.UNKNOWN)
    await stage.sleep(stage.timeout_s + (CHECK_MAX + 2) * INTERVAL_S)
    wrong = sum(not producer.checks_of(half) for half in [poison, *halves])
    if isinstance(stage, OurStage):
        parked = {key_of(message) for message in await stage.parked()}
        wrong = max(wrong, sum(half.key not in parked for half in [poison, *halves]))
    return Observed(wrong, BEHIND + 1, f"{len(producer.checks)} checks")


async def _largest(producer: Producer, topic: str) -> Half:
    """The half with the longest properties that the broker takes."""
    for size in range(LIMIT, 0, -STEP):
        try:
            return await producer.half(topic, filler="x" * size)
        except Refused:
            continue
    require(False, "no half was taken")
    raise AssertionError


def _no_reserve(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(send_half, "HALF_HEADROOM_BYTES", 0)


CASES = [
    Case(
        "a half with full properties", _poisoned, (Mutant("the bytes kept free", _no_reserve),), both(Apache.ALWAYS),
        on=On.THROWN_AWAY,
    ),
]  # fmt: skip


def test_hole_x2_poison_half(played: Callable[[], None]) -> None:
    played()
