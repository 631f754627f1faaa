"""Hole 11: failed writes are repeated without a pause.

On a full disk, Apache's brokers repeat a failed write of a half message without a pause, which keeps one core busy.
Ours waits longer each time, and parks the half message when there is space again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from gantrymq.broker.transactions import checks as transaction_checks
from gantrymq.message.transaction import Resolution
from tests.holes.actors import always
from tests.holes.case import Case, Mutant, NotRepeated, Observed
from tests.holes.stage import CHECK_MAX, OurStage, key_of, require

FULL_S = 30
TRIES_ALLOWED = 10
"""Of parking it in that time: 1, 2, 4, 8 ... s after each other, and some more."""


@contextlib.contextmanager
def _failures_to_park() -> Iterator[list[str]]:
    """What the broker logs about them meanwhile."""
    failures: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if said.startswith("parking half message") and "failed" in said:
            failures.append(said)
        return False

    transactions = logging.getLogger("gantrymq.transactions")
    level = transactions.level
    transactions.addFilter(keep)
    transactions.setLevel(logging.ERROR)
    try:
        yield failures
    finally:
        transactions.setLevel(level)
        transactions.removeFilter(keep)


async def parking_on_a_full_disk(stage: OurStage) -> Observed:
    """A half whose checks were all answered UNKNOWN, on a disk that is full for a while."""
    topic, producer = await stage.topic(), await stage.producer()
    producer.answer = always(Resolution.UNKNOWN)
    half = await producer.half(topic)
    await stage.until(lambda: len(producer.checks) == CHECK_MAX, "the last check")
    stage.disk.free_bytes = 0
    with _failures_to_park() as failures:
        await stage.sleep(FULL_S)
    tries = len(failures)
    require(tries > 0, "it was not to be parked")
    stage.disk.free_bytes = None
    await stage.sleep(70)
    parked = [key_of(message) for message in await stage.parked()]
    return Observed(tries > TRIES_ALLOWED or parked != [half.key], 1, f"{tries} tries in {FULL_S} s, parked {parked}")


CASES = [
    Case(
        "parking on a full disk",
        parking_on_a_full_disk,
        (
            Mutant(
                "the pause before the next try",
                lambda patch: patch.setattr(transaction_checks, "_backoff_s", lambda tries: 0.05),
            ),
        ),
        NotRepeated("needs a full disk: seen by hand on both versions, up to 0.23 and 0.99 cores busy"),
    )
]


def test_hole_11_busy_retries(played: Callable[[], None]) -> None:
    played()
