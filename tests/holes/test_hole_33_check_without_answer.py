"""Hole 33: a client that does not answer a check.

Apache's Java client sends nothing when the listener returns null, and drops checks when its queue of 2,000 is full.
Ours answers every check, if need be with UNKNOWN, so that the broker knows that the client is alive, and asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gantrymq.aio import LocalTransactionState, Message, MessageView
from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.sending.check_back import CheckBack, Question
from tests.holes.case import Case, Mutant, NotRepeated, Observed
from tests.holes.our_client import NAME_SERVER, our_client
from tests.holes.stage import CHECK_MAX, INTERVAL_S, OurStage, Stage

TRIES = 5
IN_THE_CLIENT = NotRepeated(
    "is in the client, not in the broker: official Java clients 4.9.8 and 5.5.0 show it in "
    "`tests/interop/test_java_checks.py`"
)


class Speechless:
    """Knows nothing and says nothing."""

    answer: Any = None

    async def execute_local_transaction(self, _message: Message, _arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    async def check_local_transaction(self, _message: MessageView) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Failing(Speechless):
    answer = RuntimeError("the database is away")


class Stuck(Speechless):
    """Its first check never ends."""

    async def check_local_transaction(self, _message: MessageView) -> Any:
        await asyncio.Event().wait()


async def _says_nothing(listener: type[Speechless], stage: Stage) -> Observed:
    """Checks that were answered UNKNOWN lead to the operator's topic; those without an answer never end."""
    assert isinstance(stage, OurStage)
    topic = await stage.topic()
    async with our_client(stage, listener()) as producer:
        for _ in range(TRIES):
            await producer.send_in_transaction(Message(topic, b"paid"))
        await stage.sleep(stage.timeout_s + INTERVAL_S * (CHECK_MAX + 1))
        parked = len(await stage.parked())
    return Observed(TRIES - parked, TRIES, f"{parked} parked")


async def _is_swamped(stage: Stage) -> Observed:
    """One check at work that does not end, two that wait: what comes now is answered at once."""
    assert isinstance(stage, OurStage)
    topic = await stage.topic()
    async with our_client(stage, Stuck(), check_threads=1, check_queue_size=3) as producer:
        for _ in range(3 + TRIES):
            await producer.send_in_transaction(Message(topic, b"paid"))
        unknown = stage.broker.coordinator.counts.unknowns
        await stage.sleep(stage.timeout_s + INTERVAL_S / 2)
        answered = stage.broker.coordinator.counts.unknowns - unknown
    return Observed(max(0, TRIES - answered), TRIES, f"{answered} answered UNKNOWN")


def _say_nothing(patch: pytest.MonkeyPatch) -> None:
    ordinary = CheckBack._answer

    def answer(self: CheckBack, question: Question, outcome: ListenerAnswer) -> None:
        if outcome.state is not LocalTransactionState.UNKNOWN:
            ordinary(self, question, outcome)

    patch.setattr(CheckBack, "_answer", answer)


NO_UNKNOWN = Mutant("the answer UNKNOWN", _say_nothing)
OURS = {"namesrv_addr": NAME_SERVER}


def _nothing(stage: Stage) -> Any:
    return _says_nothing(Speechless, stage)


def _failing(stage: Stage) -> Any:
    return _says_nothing(Failing, stage)


CASES = [
    Case("a listener that returns None", _nothing, (NO_UNKNOWN,), IN_THE_CLIENT, ours=OURS),
    Case("a listener that raises", _failing, (NO_UNKNOWN,), IN_THE_CLIENT, ours=OURS),
    Case("more checks than it can keep", _is_swamped, (NO_UNKNOWN,), IN_THE_CLIENT, ours=OURS),
]


def test_hole_33_check_without_answer(played: Callable[[], None]) -> None:
    played()
