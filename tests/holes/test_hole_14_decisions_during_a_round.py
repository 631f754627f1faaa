"""Hole 14: decisions that arrive during a round of checks.

Apache's brokers read the decisions before a round, and check half messages that were committed during the round. Ours
looks into its table at the moment of each check, also for half messages that wait because their producers have enough
checks to answer.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import ResponseCode
from tests.holes.actors import always
from tests.holes.case import Case, NotRepeated, Observed
from tests.holes.mutants import NO_MEMORY
from tests.holes.stage import INTERVAL_S, OurStage, require

HALVES = 100
AT_ONCE = 40
LATE = 30


async def committed_during_the_burst(stage: OurStage) -> Observed:
    """So many halves are due at once that some must wait; those at the end are committed meanwhile."""
    stage.ask_at_once(AT_ONCE)
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, HALVES)
    await stage.until(lambda: len(producer.checks) >= AT_ONCE, "the first checks")
    late = halves[-LATE:]
    require(not any(producer.checks_of(half) for half in late), "the last ones wait for their turn")
    committed = {}
    for half in late:
        answer = await producer.commit(half)
        require(answer.code == ResponseCode.SUCCESS, f"not committed: {answer.remark}")
        committed[half.key] = stage.now()
    producer.answer = always(Resolution.COMMIT)
    await stage.sleep(5 * INTERVAL_S)
    keys = await stage.keys(topic)
    broken = sum(bool(producer.checks_of(half)) or keys.count(half.key) != 1 for half in late)
    return Observed(broken, LATE, f"{len(keys)} delivered")


CASES = [
    Case(
        "committed while others are asked",
        committed_during_the_burst,
        (NO_MEMORY,),
        NotRepeated(
            "needs 10,000 halves in one round: seen by hand, 287 of 300 (4.9.7) and 300 of 300 (5.5.0) checked up to "
            "2 s after their commit was answered"
        ),
    )
]


def test_hole_14_decisions_during_a_round(played: Callable[[], None]) -> None:
    played()
