"""Hole 32: when the discard record of a half message cannot be written, the half message is lost without a trace.

Apache's scan continues before the record of TRANS_CHECK_MAX_TIME_TOPIC is stored. Ours removes a half message from the
table only when its parked copy is durable. Until then it stays open, and parking is tried again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.broker.transactions.checks import MAX_BACKOFF_S, TransactionChecks
from gantrymq.errors import StoreError
from gantrymq.message.transaction import Resolution
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.holes.actors import always
from tests.holes.case import Case, Mutant, NotRepeated, Observed
from tests.holes.stage import CHECK_MAX, INTERVAL_S, OurStage, Stage, key_of, require

TRIES = 5


async def _on_a_full_disk(stage: Stage) -> Observed:
    assert isinstance(stage, OurStage)
    topic, producer = await stage.topic(), await stage.producer()
    producer.answer = always(Resolution.UNKNOWN)
    halves = await producer.halves(topic, TRIES)
    await stage.until(lambda: len(producer.checks) >= TRIES * CHECK_MAX, "every half is checked for the last time")
    stage.disk.free_bytes = 0
    await stage.sleep(3 * INTERVAL_S)
    require(not await stage.parked(), "the disk was full when the halves were to be parked")
    stage.disk.free_bytes = None
    await stage.sleep(MAX_BACKOFF_S)
    keys = [key_of(message) for message in await stage.parked()]
    return Observed(sum(keys.count(half.key) != 1 for half in halves), TRIES, f"{len(keys)} parked")


def _move_on(patch: pytest.MonkeyPatch) -> None:
    def parked(checks: TransactionChecks, half: OpenHalf, error: StoreError | None) -> None:
        if error is not None:
            checks._table.remove(half)

    patch.setattr(TransactionChecks, "_parked", parked)


CASES = [
    Case(
        "parking on a full disk", _on_a_full_disk, (Mutant("another try to park", _move_on),),
        NotRepeated("needs a small file system that fills up; seen on both, 10 of 10 gone"),
    ),
]  # fmt: skip


def test_hole_32_parking_that_fails(played: Callable[[], None]) -> None:
    played()
