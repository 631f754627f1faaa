"""Hole 1: a check while the local transaction is still running.

Apache's brokers write the half message again before a check, and the check names that copy. The producer's own commit
names the original, and settles only that. If the check of the copy is answered COMMIT, a second message is delivered.
If it is answered UNKNOWN, the checks continue until the copy is discarded, although the message was delivered. Ours:
one decision per transaction.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.protocol.codes import ResponseCode
from tests.holes.actors import Half, Producer
from tests.holes.case import Apache, Case, Observed, both
from tests.holes.mutants import NO_MEMORY, PUT_BACK
from tests.holes.stage import CHECK_MAX, INTERVAL_S, Stage, key_of, require

TRIES = 5


async def _committed_after_its_check(stage: Stage) -> tuple[str, Producer, list[Half]]:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    await stage.until(lambda: all(producer.checks_of(half) for half in halves), "a check for each half")
    for half in halves:
        answer = await producer.commit(half)
        require(answer.code == ResponseCode.SUCCESS, f"the commit was refused: {answer.remark}")
    return topic, producer, halves


async def both_committed(stage: Stage) -> Observed:
    """The producer commits, and then its checker answers COMMIT, too."""
    topic, producer, halves = await _committed_after_its_check(stage)
    for half in halves:
        await producer.commit(producer.checks_of(half)[0])
    keys = await stage.keys(topic)
    return Observed(sum(keys.count(half.key) != 1 for half in halves), TRIES, f"{len(keys)} delivered")


async def asked_on(stage: Stage) -> Observed:
    """The producer commits, and no check is answered any more: for the broker that is UNKNOWN."""
    topic, producer, halves = await _committed_after_its_check(stage)
    await stage.sleep(INTERVAL_S / 2)  # a check that was on its way is no new one
    asked = len(producer.checks)
    await stage.sleep((CHECK_MAX + 3) * INTERVAL_S)
    keys, parked = await stage.keys(topic), {key_of(message) for message in await stage.parked()}
    again = {check.key for check in producer.checks[asked:]}
    broken = sum(half.key in again or half.key in parked or keys.count(half.key) != 1 for half in halves)
    return Observed(broken, TRIES, f"asked again {len(again)}, discarded {sum(half.key in parked for half in halves)}")


CASES = [
    Case("commit and COMMIT as answer", both_committed, (NO_MEMORY, PUT_BACK), both(Apache.ALWAYS)),
    Case("commit and no answer", asked_on, (NO_MEMORY, PUT_BACK), both(Apache.ALWAYS)),
]


def test_hole_01_checked_while_running(played: Callable[[], None]) -> None:
    played()
