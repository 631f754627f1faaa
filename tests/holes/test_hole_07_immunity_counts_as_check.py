"""Hole 7: the immunity uses up the checks.

Apache's brokers write a half message that is still immune again in every round, and count the round. With an immunity
longer than transactionCheckMax rounds, the half message is discarded without a single check. Ours writes nothing during
the immunity, and sends the first check when it ends.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.message.properties import CHECK_IMMUNITY_SECONDS
from tests.holes.case import Apache, Case, Observed, both
from tests.holes.mutants import PUT_BACK
from tests.holes.stage import CHECK_MAX, INTERVAL_S, Stage, key_of

TRIES = 5
IMMUNITY_S = 15


async def long_immunity(stage: Stage) -> Observed:
    """Immune for three times as long as all checks would take."""
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES, **{CHECK_IMMUNITY_SECONDS: str(IMMUNITY_S)})
    await stage.sleep((CHECK_MAX + 6) * INTERVAL_S)
    early = len(producer.checks)
    parked = {key_of(message) for message in await stage.parked()}
    if not parked.issuperset(half.key for half in halves):
        await stage.sleep(IMMUNITY_S + 2 * INTERVAL_S - (CHECK_MAX + 6) * INTERVAL_S)
        parked = {key_of(message) for message in await stage.parked()}
    broken = sum(half.key in parked or not producer.checks_of(half) for half in halves)
    return Observed(broken + early, TRIES, f"{len(producer.checks)} checks, {early} of them early")


CASES = [Case("long immunity", long_immunity, (PUT_BACK,), both(Apache.ALWAYS))]


def test_hole_07_immunity_counts_as_check(played: Callable[[], None]) -> None:
    played()
