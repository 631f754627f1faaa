"""X1: a sender sets properties that only the broker may set.

Apache's brokers discard a half message with TRANSACTION_CHECK_TIMES in the first round, before its time-out and before
any check. Ours removes such properties from every incoming message. So no property of a sender can influence a
transaction, and consumers never see them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gantrymq.broker.operations import send
from gantrymq.message import properties
from gantrymq.message.transaction import Resolution
from gantrymq.store.values import NewRecord
from tests.holes.actors import always
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.stage import INTERVAL_S, Stage

TRIES = 5
FORGED = {
    properties.CHECK_TIMES: "99", properties.PREPARED_QUEUE_OFFSET: "0", properties.REAL_TOPIC: "elsewhere",
    properties.REAL_QUEUE_ID: "7",
}  # fmt: skip


async def _discards(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES, **{properties.CHECK_TIMES: "99"})
    await stage.sleep(stage.timeout_s + 2 * INTERVAL_S)
    return Observed(sum(not producer.checks_of(half) for half in halves), TRIES, f"{len(producer.checks)} checks")


async def _is_passed_on(stage: Stage) -> Observed:
    """Everything forged, committed at once and by a check."""
    topic, producer = await stage.topic(), await stage.producer()
    at_once = await producer.halves(topic, TRIES, **FORGED)
    for half in at_once:
        await producer.commit(half)
    producer.answer = always(Resolution.COMMIT)
    await producer.halves(topic, TRIES, **FORGED)
    await stage.sleep(stage.timeout_s + 2 * INTERVAL_S)
    texts = [message.properties_text for message in await stage.delivered(topic)]
    clean = sum(not any(properties.find(text, name) == value for name, value in FORGED.items()) for text in texts)
    return Observed(2 * TRIES - clean, 2 * TRIES, f"{len(texts)} delivered, {clean} of them clean")


def _leave_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(properties, "BROKER_ONLY", frozenset())
    patch.setattr(send, "NOT_THE_SENDERS", frozenset())


def _believe_the_count(patch: pytest.MonkeyPatch) -> None:
    """And the count that a half brings is the count that counts, as on Apache's brokers."""
    from gantrymq.broker.transactions.coordinator import TransactionCoordinator

    _leave_them(patch)
    put_half = TransactionCoordinator.put_half

    def put(self: TransactionCoordinator, record: NewRecord, *more: Any) -> None:
        put_half(self, record, *more)
        half = list(self.table)[-1]
        half.unknown_answers = int(properties.find(record.properties, properties.CHECK_TIMES) or 0)

    patch.setattr(TransactionCoordinator, "put_half", put)


CASES = [
    Case(
        "a forged count of checks", _discards,
        (Mutant("the broker's own count of checks", _believe_the_count),), both(Apache.ALWAYS),
    ),
    Case(
        "forged properties", _is_passed_on,
        (Mutant("the taking off of what only a broker sets", _leave_them),), both(Apache.ALWAYS),
    ),
]  # fmt: skip


def test_hole_x1_forged_properties(played: Callable[[], None]) -> None:
    played()
