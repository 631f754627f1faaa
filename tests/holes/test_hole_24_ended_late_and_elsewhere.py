"""Hole 24: the proxy of Apache 5.x forgets after 30 s where a half message is, and another proxy never knew it.

GantryMQ has no proxy, so it does not have this hole. The test shows what holds instead: the end of a half message is
accepted at any time, and from any member of its group, with the position that the answer to the send contained.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.broker.registries.clients import ProducerGroups
from tests.holes.case import Case, Mutant, NotRepeated, Observed
from tests.holes.stage import Stage

TRIES = 3
LATE_S = 45.0


async def _by_a_sibling(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    await stage.sleep(LATE_S)
    await producer.leave()
    sibling = await stage.producer(producer.group)
    codes = [(await sibling.commit(half)).code for half in halves]
    keys = await stage.keys(topic)
    return Observed(sum(keys.count(half.key) != 1 for half in halves), TRIES, f"answers {codes}")


def _nobody_else(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerGroups, "is_member", lambda *_: False)


CASES = [
    Case(
        "a late end from a sibling", _by_a_sibling, (Mutant("the membership of siblings", _nobody_else),),
        NotRepeated("needs a proxy: 10 of 10 ends 45 s after the send were refused and never delivered"),
    ),
]  # fmt: skip


def test_hole_24_ended_late_and_elsewhere(played: Callable[[], None]) -> None:
    played()
