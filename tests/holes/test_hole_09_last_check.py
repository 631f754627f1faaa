"""Hole 9: a half message is discarded before the answer to its last check can arrive.

Apache's brokers write a half message again for its last check, and may discard that copy in the same round. Ours parks
a half message only when its last check was *answered* with UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gantrymq.broker.transactions.checks import TransactionChecks
from gantrymq.message.transaction import Resolution
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.holes.actors import Check
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.mutants import PUT_BACK, Patch
from tests.holes.stage import CHECK_MAX, INTERVAL_S, Stage, key_of

TRIES = 20


async def last_check_answered(stage: Stage) -> Observed:
    """All checks but the last are answered UNKNOWN, the last one COMMIT, after a fraction of the interval."""
    topic, producer = await stage.topic(), await stage.producer()

    def answer(check: Check) -> Resolution | None:
        count = sum(other.key == check.key for other in producer.checks)
        return Resolution.UNKNOWN if count < CHECK_MAX else None

    producer.answer = answer
    halves = await producer.halves(topic, TRIES)
    await stage.until(lambda: all(len(producer.checks_of(half)) >= CHECK_MAX for half in halves), "the last checks")
    await stage.sleep(INTERVAL_S / 5)
    for half in halves:
        await producer.commit(producer.checks_of(half)[CHECK_MAX - 1])
    await stage.sleep(3 * INTERVAL_S)
    keys, parked = await stage.keys(topic), {key_of(message) for message in await stage.parked()}
    broken = sum(half.key in parked or keys.count(half.key) != 1 for half in halves)
    return Observed(broken, TRIES, f"{len(keys)} delivered, {sum(half.key in parked for half in halves)} discarded")


def _count_when_asked(patch: Patch) -> None:
    ask = TransactionChecks._ask

    def ask_and_count(checks: TransactionChecks, half: OpenHalf, session: Any, now: float) -> None:
        ask(checks, half, session, now)
        if half.times_asked >= checks.config.check_max:
            half.unknown_answers, half.answer_deadline = checks.config.check_max, now
            checks._schedule.put(half, now)

    patch.setattr(TransactionChecks, "_ask", ask_and_count)


CASES = [
    Case(
        "last check answered COMMIT",
        last_check_answered,
        (Mutant("waiting for the answer to the last check", _count_when_asked), PUT_BACK),
        both(Apache.SOMETIMES),
        alone=True,  # a young half of somebody else ends the round before it comes to the copies
    )
]


def test_hole_09_last_check(played: Callable[[], None]) -> None:
    played()
