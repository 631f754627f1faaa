"""Hole 8: a commit during the immunity of a half message that was written again meanwhile.

Apache's brokers write a half message again while it is immune. A commit then settles the copy that it names, but the
broker goes on with another copy. So the message is delivered, checked when the immunity ends, and delivered again.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.message.properties import CHECK_IMMUNITY_SECONDS
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import ResponseCode
from tests.holes.actors import always
from tests.holes.case import Apache, Case, Observed, both
from tests.holes.mutants import NO_MEMORY, PUT_BACK
from tests.holes.stage import INTERVAL_S, Stage, require

TRIES = 5
IMMUNITY_S = 4


async def committed_while_immune(stage: Stage) -> Observed:
    """Committed before the immunity ends; every check is answered COMMIT."""
    topic, producer = await stage.topic(), await stage.producer()
    producer.answer = always(Resolution.COMMIT)
    halves = await producer.halves(topic, TRIES, **{CHECK_IMMUNITY_SECONDS: str(IMMUNITY_S)})
    await stage.sleep(2.5 * INTERVAL_S)
    for half in halves:
        answer = await producer.commit(half)
        require(answer.code == ResponseCode.SUCCESS, f"not committed: {answer.remark}")
    await stage.comes_true(lambda: all(producer.checks_of(half) for half in halves), IMMUNITY_S + 10 * INTERVAL_S)
    await stage.sleep(INTERVAL_S)
    keys = await stage.keys(topic)
    broken = sum(bool(producer.checks_of(half)) or keys.count(half.key) != 1 for half in halves)
    return Observed(broken, TRIES, f"{len(producer.checks)} checks, {len(keys)} delivered")


CASES = [Case("committed while immune", committed_while_immune, (NO_MEMORY, PUT_BACK), both(Apache.ALWAYS))]


def test_hole_08_commit_during_immunity(played: Callable[[], None]) -> None:
    played()
