"""Hole 16: a half message that cannot be read.

A body length of nearly 2 GB causes an OutOfMemoryError in Apache's brokers, which ends every round of checks there. The
half messages after it are never checked, and those before it are checked, and delivered, in every round. (If a half
message cannot be read for another reason, such as a body length beyond the record, Apache's brokers skip it, too.)

Ours logs the damage, skips the half message, and checks all others, also after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gantrymq.broker.transactions.checks import TransactionChecks
from gantrymq.broker.transactions.half_notes_file import HalfNotesFile
from gantrymq.errors import CorruptRecord
from gantrymq.message.transaction import Resolution
from gantrymq.transactions import rebuild
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.holes.actors import always
from tests.holes.case import Apache, Case, Mutant, NotRepeated, Observed, On, both
from tests.holes.mutants import Patch
from tests.holes.stage import INTERVAL_S, OurStage, Stage

TRIES = 6
DAMAGED = 2
BODY = bytes(4096)
BALLAST = 60


async def while_running(stage: Stage) -> Observed:
    """Damaged while the broker runs; every check is answered COMMIT."""
    topic, producer = await stage.topic(), await stage.producer()
    producer.answer = always(Resolution.COMMIT)
    halves = await producer.halves(topic, TRIES)
    stage.damage(halves[DAMAGED].place[1])
    await stage.sleep(stage.timeout_s + 8 * INTERVAL_S)
    return await _observed(stage, topic, [*halves[:DAMAGED], *halves[DAMAGED + 1 :]])


async def after_a_restart(stage: OurStage) -> Observed:
    """Damaged far before the end of the log, where recovery does not look; then a restart."""
    topic, other, producer = await stage.topic(), await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    for _ in range(BALLAST):
        await producer.commit(await producer.half(other, BODY))
    await producer.leave()
    stage.damage(halves[DAMAGED].place[1])
    started = True
    try:
        await stage.restart(orderly=True)
    except Exception:
        started = False
    if not started:
        return Observed(TRIES, TRIES, "the broker did not start")
    sibling = await stage.producer(producer.group)
    sibling.answer = always(Resolution.COMMIT)
    await stage.sleep(stage.timeout_s + 3 * INTERVAL_S)
    return await _observed(stage, topic, [*halves[:DAMAGED], *halves[DAMAGED + 1 :]])


async def _observed(stage: Stage, topic: str, halves: list[Any]) -> Observed:
    keys = await stage.keys(topic)
    return Observed(sum(keys.count(half.key) != 1 for half in halves), len(halves), f"{len(keys)} delivered")


def _let_it_out(patch: Patch) -> None:
    ask = TransactionChecks._ask

    def ask_or_fail(checks: TransactionChecks, half: OpenHalf, session: Any, now: float) -> None:
        if checks._store.read(half.newest()[1]) is None:
            raise CorruptRecord(half.log_offset, "not caught")
        ask(checks, half, session, now)

    patch.setattr(TransactionChecks, "_ask", ask_or_fail)


def _believe_all(patch: Patch) -> None:
    """And with a start that reads the halves; the notes of the one before would spare it that."""
    read_halves = rebuild.read_halves

    def refuse(_offset: int, error: CorruptRecord) -> None:
        raise error

    patch.setattr(rebuild, "read_halves", lambda store, offsets, _unreadable: read_halves(store, offsets, refuse))
    patch.setattr(HalfNotesFile, "blocks", lambda _file: iter(()))


BY_HAND = NotRepeated(
    "needs a damaged file: seen by hand on both versions, ten halves behind it never checked in ten rounds"
)
CASES = [
    Case(
        "while running",
        while_running,
        (Mutant("the catching of one half's error", _let_it_out),),
        both(Apache.ALWAYS),
        on=On.DAMAGED,
    ),
    Case("after a restart", after_a_restart, (Mutant("the quarantine at the start", _believe_all),), BY_HAND),
]


def test_hole_16_unreadable_half(played: Callable[[], None]) -> None:
    played()
