"""Hole 10: rounds are counted while no member of the producer group is online.

If a group is offline for transactionCheckMax rounds, Apache's brokers discard its half messages without having sent a
check. Ours counts no attempt during this time, and sends the checks as soon as a member of the group is back.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.broker.transactions.checks import TransactionChecks
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.mutants import PUT_BACK, Patch
from tests.holes.stage import CHECK_MAX, INTERVAL_S, Stage, key_of

TRIES = 5
ROUNDS_MORE = 15


async def group_away(stage: Stage) -> Observed:
    """The producer dies right after its halves; somebody of its group comes when all rounds would be over."""
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    await producer.leave()
    await stage.sleep(stage.timeout_s + (CHECK_MAX + 2) * INTERVAL_S)
    parked: set[str] = set()
    for _ in range(ROUNDS_MORE):  # rounds get longer when many use the broker
        parked = {key_of(message) for message in await stage.parked()}
        if parked.issuperset(half.key for half in halves):
            break
        await stage.sleep(INTERVAL_S)
    sibling = await stage.producer(producer.group)
    await stage.sleep(2 * INTERVAL_S)
    broken = sum(half.key in parked or not sibling.checks_of(half) for half in halves)
    return Observed(
        broken, TRIES, f"{len(sibling.checks)} checks, {sum(half.key in parked for half in halves)} discarded"
    )


def _count_absence(patch: Patch) -> None:
    def wait(checks: TransactionChecks, half: OpenHalf, now: float) -> None:
        half.unknown_answers += 1
        checks._schedule.put(half, now + checks._interval_s)

    patch.setattr(TransactionChecks, "_wait_for_producer", wait)


CASES = [
    Case(
        "group away for all rounds",
        group_away,
        (Mutant("counting only what a producer was asked", _count_absence), PUT_BACK),
        both(Apache.ALWAYS),
    )
]


def test_hole_10_nobody_online(played: Callable[[], None]) -> None:
    played()
