"""Hole 27: an op message that settles many half messages counts as done when one of them is found.

The source of Apache 5.x has this path, but no request reaches it. Ours reads each offset of an op message separately,
whichever broker wrote it: the half messages that it names are settled, and no others.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.message.transaction import Resolution
from gantrymq.protocol.stored_message import pack_host
from gantrymq.transactions import rebuild
from gantrymq.transactions.records.half import op_record
from gantrymq.transactions.table.decisions import Decision
from tests.holes.actors import always
from tests.holes.case import Case, Mutant, NotRepeated, Observed
from tests.holes.stage import BROKER, INTERVAL_S, OurStage, Stage

TRIES = 6


async def _settled(stage: Stage) -> Observed:
    """Every second half is settled, all by one op message as Apache's brokers write them."""
    assert isinstance(stage, OurStage)
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    done, left = halves[::2], halves[1::2]
    op = op_record(0, Decision.NONE, stage.wall_ms(), pack_host(f"{BROKER}:10911"))
    op.body = b"".join(b"%d," % half.place[0] for half in done)
    stage.broker.store.append([op])
    await stage.sleep(0)  # written at the end of the turn
    await stage.restart()
    producer = await stage.producer(producer.group)
    producer.answer = always(Resolution.COMMIT)
    await stage.sleep(stage.timeout_s + 2 * INTERVAL_S)
    keys = await stage.keys(topic)
    wrong = sum(half.key in keys for half in done) + sum(half.key not in keys for half in left)
    return Observed(wrong, TRIES)


def _first_only(patch: pytest.MonkeyPatch) -> None:
    ordinary = rebuild.parse_op
    patch.setattr(rebuild, "parse_op", lambda body: ordinary(body)[:1])


CASES = [
    Case(
        "one op for many halves", _settled, (Mutant("each offset of an op", _first_only),),
        NotRepeated("no path leads there from outside"),
    ),
]  # fmt: skip


def test_hole_27_ops_for_many(played: Callable[[], None]) -> None:
    played()
