"""Hole 6: the check-back ignores decisions that are not written yet.

Apache's 5.5.0 checks half messages whose commit it has just answered with SUCCESS. If the check is answered COMMIT, the
message is delivered again. Ours looks into its table of decisions before each check.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import ResponseCode
from tests.holes.actors import always
from tests.holes.case import Apache, Case, Observed, On
from tests.holes.mutants import NO_MEMORY
from tests.holes.stage import INTERVAL_S, Stage, require

TRIES = 20


async def committed_just_in_time(stage: Stage) -> Observed:
    """Commits that are answered a second before the first check is due; every check is answered COMMIT."""
    topic, producer = await stage.topic(), await stage.producer()
    producer.answer = always(Resolution.COMMIT)
    halves = await producer.halves(topic, TRIES)
    await stage.sleep(stage.timeout_s - 1.0 - (stage.now() - halves[0].sent_at))
    for half in halves:
        answer = await producer.commit(half)
        require(answer.code == ResponseCode.SUCCESS, f"not committed: {answer.remark}")
    require(not producer.checks, "the machine is too slow: a check came before the commits")
    await stage.sleep(5 * INTERVAL_S)
    keys = await stage.keys(topic)
    broken = sum(bool(producer.checks_of(half)) or keys.count(half.key) != 1 for half in halves)
    return Observed(broken, TRIES, f"{len(producer.checks)} checks, {len(keys)} delivered")


CASES = [
    Case(
        "committed just in time",
        committed_just_in_time,
        (NO_MEMORY,),
        {"4.9.7": Apache.NEVER, "5.5.0": Apache.SOMETIMES},
        on=On.DEFAULT,
        ours={"transaction_time_out": 6000},
    ),
]


def test_hole_06_unwritten_decisions(played: Callable[[], None]) -> None:
    played()
