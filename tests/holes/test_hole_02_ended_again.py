"""Hole 2: a repeated END_TRANSACTION.

Apache's brokers remember no decision. A second COMMIT makes a second message, a COMMIT after a ROLLBACK delivers the
rolled-back message, and a ROLLBACK after a COMMIT is answered SUCCESS. Ours: the first decision wins for as long as the
half message exists. The same decision again is answered SUCCESS, the opposite decision ILLEGAL_OPERATION.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import ResponseCode
from gantrymq.transactions.rules.resolve import EndAction
from gantrymq.transactions.rules.states import State
from tests.holes.case import Apache, Case, Observed, both
from tests.holes.mutants import NO_MEMORY, other_action
from tests.holes.stage import Stage, require

TRIES = 5


async def _twice(first: Resolution, second: Resolution, wrong: Callable[[int, int], bool], stage: Stage) -> Observed:
    """``wrong``: of the copies delivered and the code of the second answer."""
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    for half in halves:
        answer = await producer.end(half, first)
        require(answer.code == ResponseCode.SUCCESS, f"the first decision was not taken: {answer.remark}")
    codes = [(await producer.end(half, second)).code for half in halves]
    keys = await stage.keys(topic)
    broken = sum(wrong(keys.count(half.key), code) for half, code in zip(halves, codes, strict=True))
    return Observed(broken, TRIES, f"second answers {codes}, {len(keys)} delivered")


CASES = [
    Case(
        "COMMIT twice",
        partial(_twice, Resolution.COMMIT, Resolution.COMMIT, lambda copies, code: copies != 1 or code != 0),
        (NO_MEMORY,),
        both(Apache.ALWAYS),
    ),
    Case(
        "COMMIT after ROLLBACK",
        partial(
            _twice, Resolution.ROLLBACK, Resolution.COMMIT,
            lambda copies, code: copies != 0 or code != ResponseCode.ILLEGAL_OPERATION,
        ),
        (NO_MEMORY,),
        both(Apache.ALWAYS),
    ),
    Case(
        "ROLLBACK after COMMIT",
        partial(
            _twice, Resolution.COMMIT, Resolution.ROLLBACK,
            lambda copies, code: copies != 1 or code != ResponseCode.ILLEGAL_OPERATION,
        ),
        (
            NO_MEMORY,
            other_action(
                State.COMMITTED, Resolution.ROLLBACK, EndAction.ALREADY, "the refusal of the opposite decision"
            ),
        ),
        both(Apache.ALWAYS),
    ),
]  # fmt: skip


def test_hole_02_ended_again(played: Callable[[], None]) -> None:
    played()
