"""Hole 13: ages are counted by the producer's clock.

If the producer's clock is ahead, Apache's brokers check its half messages at once. If it is three days behind, they
discard them without a check. A young half message ends the round for all those after it. Ours counts from the store
time, and every half message has its own due time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from gantrymq.broker.transactions.checks import TransactionChecks
from gantrymq.protocol.stored_message import decode_record
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable
from tests.holes.case import Apache, Case, Mutant, Observed, On, both
from tests.holes.mutants import QUEUE_OF_CHECKS, Patch
from tests.holes.stage import INTERVAL_S, Stage, key_of

TRIES = 5
HOUR_MS = 3_600_000


async def _clock_is_wrong(by_ms: int, stage: Stage) -> Observed:
    """First checks must come when the immunity ends, wherever the producer's clock stands."""
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES, born_ms=stage.wall_ms() + by_ms)  # type: ignore[arg-type]
    await stage.sleep(stage.timeout_s + 4 * INTERVAL_S)
    parked = {key_of(message) for message in await stage.parked()}
    firsts = [producer.checks_of(half)[:1] for half in halves]
    broken = 0
    for half, first in zip(halves, firsts, strict=True):
        early = bool(first) and first[0].at - half.sent_at < stage.timeout_s - 0.5
        broken += not first or early or half.key in parked
    waited = [round(first[0].at - half.sent_at, 1) for half, first in zip(halves, firsts, strict=True) if first]
    return Observed(broken, TRIES, f"first checks after {waited} s, {len(parked)} discarded")


async def young_half_in_front(stage: Stage) -> Observed:
    """A half is checked every interval, whatever younger halves were sent meanwhile."""
    topic, producer = await stage.topic(), await stage.producer()
    half = await producer.half(topic)
    await stage.until(lambda: stage.now() - half.sent_at > stage.timeout_s - INTERVAL_S / 2, "half a second before")
    await producer.half(topic)
    await stage.until(lambda: len(producer.checks_of(half)) >= 2, "a second check")
    first, second = (check.at for check in producer.checks_of(half)[:2])
    return Observed(int(second - first > 3 * INTERVAL_S), 1, f"second check {second - first:.1f} s after the first")


def _ages_from_birth(patch: Patch) -> None:
    add = TransactionTable.add

    def add_born(table: TransactionTable, half: OpenHalf, record: bytes | None = None) -> None:
        if record is not None:
            half.stored_at = decode_record(record).born_timestamp
        add(table, half, record)

    def watch(checks: TransactionChecks, halves: Iterable[OpenHalf], *, anew: bool = False) -> None:
        now = checks._clock.monotonic()
        for half in halves:
            left_ms = half.stored_at + half.immunity_ms - checks._clock.wall_ms()
            half.immune_until = now + left_ms / 1000
            checks._schedule.put(half, max(half.immune_until, now))

    patch.setattr(TransactionTable, "add", add_born)
    patch.setattr(TransactionChecks, "watch", watch)


STORE_TIME = Mutant("the age from the store time", _ages_from_birth)
CASES = [
    Case(
        "clock an hour ahead",
        partial(_clock_is_wrong, HOUR_MS),
        (STORE_TIME,),
        both(Apache.ALWAYS),
        on=On.DEFAULT,
        alone=True,
        ours={"transaction_time_out": 6000},
    ),
    Case("clock 80 hours behind", partial(_clock_is_wrong, -80 * HOUR_MS), (STORE_TIME,), both(Apache.ALWAYS)),
    Case(
        "young half in front",
        young_half_in_front,
        (QUEUE_OF_CHECKS,),
        both(Apache.ALWAYS),
        on=On.DEFAULT,
        alone=True,
        ours={"transaction_time_out": 6000},
    ),
]


def test_hole_13_clock_of_the_producer(played: Callable[[], None]) -> None:
    played()
