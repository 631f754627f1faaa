"""X7: the answer to a ROLLBACK is SUCCESS with the remark "not set any response code"."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.broker.remoting import end_transaction
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import encode_response
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.stage import Stage

TRIES = 5


async def _rolled_back(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    answers = [await producer.roll_back(half) for half in halves]
    said = {(answer.code, answer.remark) for answer in answers}
    return Observed(sum(bool(answer.code == 0 and answer.remark) for answer in answers), TRIES, f"answers {said}")


def _a_default(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        end_transaction, "success_of",
        lambda command: encode_response(command, ResponseCode.SUCCESS, remark="not set any response code"),
    )  # fmt: skip


CASES = [
    Case(
        "the remark", _rolled_back, (Mutant("an answer of its own", _a_default),), both(Apache.ALWAYS),
    ),
]  # fmt: skip


def test_hole_x7_remark_of_a_rollback(played: Callable[[], None]) -> None:
    played()
