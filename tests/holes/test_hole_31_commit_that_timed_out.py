"""Hole 31: a commit whose append timed out may be stored, and is then delivered again by the check.

Ours does not answer before the disk has confirmed the write, so no decision is uncertain. An end, or an answer to a
check, that arrives meanwhile waits for the first decision and gets its outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gantrymq.broker.client import Client
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.end import Done, EndOperation, EndRequest
from gantrymq.errors import StoreError
from gantrymq.transactions.rules.resolve import EndAction
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.holes.case import Case, Mutant, NotRepeated, Observed
from tests.holes.stage import OurStage, Stage

TRIES = 5
HANGS_S = 14.0
APACHE_WAITS_S = 10.0


async def _again_while_the_disk_hangs(stage: Stage) -> Observed:
    assert isinstance(stage, OurStage)
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    stage.disk.hold_syncs = True
    first = [asyncio.ensure_future(producer.commit(half)) for half in halves]
    await stage.sleep(APACHE_WAITS_S + 1)
    second = [asyncio.ensure_future(producer.commit(half)) for half in halves]
    await stage.sleep(HANGS_S - APACHE_WAITS_S)
    stage.disk.hold_syncs = False
    stage.disk.close()  # lets go of all that waited
    codes = [answer.code for answer in await asyncio.gather(*first, *second)]
    keys = await stage.keys(topic)
    wrong = sum(keys.count(half.key) != 1 for half in halves)
    return Observed(max(wrong, sum(code != 0 for code in codes)), TRIES, f"answers {codes}, delivered {len(keys)}")


def _time_out(patch: pytest.MonkeyPatch) -> None:
    decide = EndOperation._decide

    def decide_in_time(
        self: EndOperation, client: Client, request: EndRequest, half: OpenHalf, action: EndAction, queues: int,
        done: Done | None,
    ) -> None:  # fmt: skip
        decide(self, client, request, half, action, queues, done)

        def give_up() -> None:
            if half.state is State.COMMITTING:
                half.state = State.OPEN
                assert done is not None
                done(Refused(Refusal.FAILED, "timed out"))

        self._endings._clock.call_later(APACHE_WAITS_S, give_up)

    def ended(endings: object, half: OpenHalf, decision: object, error: StoreError | None) -> None:
        if half.queue_offset in endings._table:  # type: ignore[attr-defined]
            endings._table.end(half, decision)  # type: ignore[attr-defined]
        for tell in half.waiting or ():
            tell(half, error)

    patch.setattr(EndOperation, "_decide", decide_in_time)
    patch.setattr("gantrymq.broker.transactions.endings.TransactionEndings._ended", ended)


CASES = [
    Case(
        "a commit again while the disk hangs", _again_while_the_disk_hangs,
        (Mutant("the wait for the decision under way", _time_out),),
        NotRepeated("needs a disk that hangs for 14 s; with one neither version showed it: answered SUCCESS after 5 s"),
        ours={"transaction_time_out": 60_000},
    ),
]  # fmt: skip


def test_hole_31_commit_that_timed_out(played: Callable[[], None]) -> None:
    played()
