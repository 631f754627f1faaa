"""Hole 26: the offset in the answer to a half message is not its own.

With static topics, Apache 5.x adds their logic offset to the answer, and every end that names this offset is refused.
Our broker has no static topics, and the answer contains the half message's own position, whichever queue its message is
for.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from gantrymq.broker.remoting.send_answers import SendAnswers
from gantrymq.broker.submission import Stored
from gantrymq.message.system_topics import HALF, TOOLS_CONSUMER
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command
from tests.holes.case import Case, Mutant, NotRepeated, Observed
from tests.holes.stage import OurStage, Stage, key_of, require

TRIES = 5
LOGIC_OFFSET = 1000
UPDATE_AND_CREATE_STATIC_TOPIC = 513


async def _answered(stage: Stage) -> Observed:
    assert isinstance(stage, OurStage)
    topic, producer = await stage.topic(), await stage.producer()
    refused = await stage.ask(UPDATE_AND_CREATE_STATIC_TOPIC)  # type: ignore[arg-type]
    require(refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "a static topic was made")
    halves = await producer.halves(topic, TRIES)
    lies = {key_of(half): (half.queue_offset, half.log_offset) for half in await stage.read(HALF, TOOLS_CONSUMER)}
    codes = [(await producer.commit(half)).code for half in halves]
    wrong = sum(code != 0 or half.place != lies[half.key] for half, code in zip(halves, codes, strict=True))
    return Observed(wrong, TRIES, f"answers {codes}")


def _logic_offset(patch: pytest.MonkeyPatch) -> None:
    stored = SendAnswers.stored

    def shifted(self: SendAnswers, command: Command, place: Stored) -> bytes:
        return stored(self, command, structs.replace(place, queue_offset=place.queue_offset + LOGIC_OFFSET))

    patch.setattr(SendAnswers, "stored", shifted)


CASES = [
    Case(
        "the answer to a half", _answered, (Mutant("the half's own offset in the answer", _logic_offset),),
        NotRepeated("needs a static topic on 5.5.0, made by mqadmin; seen in 10 of 10 there, 4.9.7 has none"),
    ),
]  # fmt: skip


def test_hole_26_answered_offsets(played: Callable[[], None]) -> None:
    played()
