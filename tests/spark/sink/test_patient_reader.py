"""The sink waits while the broker of its topics is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")
from gantrymq.client.results import PullResult
from gantrymq.errors import GantryError, RouteNotFound, Unreachable
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.patience import Patience
from gantrymq.spark.sink.patient_reader import PatientReader, PatientWriter
from tests.spark.fakes import SteppedClock, away

QUEUE = MessageQueue("G-decisions", "broker-a", 0)


class Reader:
    """Answers when it has raised all of its errors."""

    def __init__(self, errors: list[GantryError]) -> None:
        self.errors = errors

    def _answer(self) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    def queues(self, topic: str) -> list[MessageQueue]:
        return self._answer()  # type: ignore[no-any-return]

    def pull(self, queue: MessageQueue, offset: int, max_count: int = 32) -> PullResult:
        return self._answer()  # type: ignore[no-any-return]

    def min_offset(self, queue: MessageQueue) -> int:
        return self._answer()  # type: ignore[no-any-return]

    def max_offset(self, queue: MessageQueue) -> int:
        return self._answer()  # type: ignore[no-any-return]


def patient(errors: list[GantryError]) -> PatientReader:
    return PatientReader(Reader(errors), Patience(60_000, SteppedClock(), SystemRng(1)))


CALLS: list[Callable[[PatientReader], Any]] = [
    lambda reader: reader.queues("G-decisions"),
    lambda reader: reader.pull(QUEUE, 0),
    lambda reader: reader.min_offset(QUEUE),
    lambda reader: reader.max_offset(QUEUE),
]


@pytest.mark.parametrize("call", CALLS)
def test_every_question_is_repeated_for_a_limited_time(call: Callable[[PatientReader], Any]) -> None:
    assert call(patient(away(20))) == "answer"
    with pytest.raises(Unreachable):
        call(patient(away(1000)))


def test_a_topic_is_made_when_its_broker_is_back() -> None:
    """A batch failed at once, while the same outage a moment later was waited for."""
    made: list[str] = []
    errors = [*away(20), Unreachable("the cluster", "the name servers know no broker")]

    class Writer:
        def append(self, queue: MessageQueue, message: Message) -> int:
            return 7

        def make_topic(self, topic: str) -> None:
            if errors:
                raise errors.pop()
            made.append(topic)

    writer = PatientWriter(Writer(), Patience(60_000, SteppedClock(), SystemRng(1)))
    writer.make_topic("G-decisions")
    assert (made, errors, writer.append(QUEUE, Message("T", b"x"))) == (["G-decisions"], [], 7)
    errors += away(1000)
    with pytest.raises(Unreachable):
        writer.make_topic("G-decisions")


def test_a_topic_that_does_not_exist_is_said_at_once() -> None:
    reader = patient([*away(3), RouteNotFound("G-decisions", "no such topic")])
    with pytest.raises(RouteNotFound):
        reader.queues("G-decisions")
