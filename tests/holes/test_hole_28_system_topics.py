"""Hole 28: the topics of transactions can be deleted, and the number of open transactions drifts.

Apache 5.5.0 counts up for each half message and down for each end, so that two ends of one half message count twice.
Apache's brokers do refuse to delete the topics. Ours refuses it for all three topics, and the number of open
transactions is the length of the table of open transactions.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from gantrymq.broker.operations import topics
from gantrymq.broker.transactions.counts import TransactionCounts
from gantrymq.message.system_topics import HALF, OP, PARKED
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.topics import TopicOnly
from gantrymq.transactions.table.open_halves import TransactionTable
from tests.holes.apache_stage import ApacheStage
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.stage import OurStage, Stage, require

HALVES = 5
GAUGE_WRITTEN_S = 30.0


async def _deleted(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    await producer.commit(await producer.half(topic))
    # On a broker that is shared, nobody tries what might succeed.
    names = [HALF, OP, PARKED] if isinstance(stage, OurStage) else [HALF, OP]
    answers = [await stage.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic=name)) for name in names]
    codes = [answer.code for answer in answers]
    return Observed(codes.count(ResponseCode.SUCCESS), len(names), f"answers {codes}")


async def _counted(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, HALVES)
    for half in halves:
        require((await producer.commit(half)).code == ResponseCode.SUCCESS, "a commit was refused")
        await producer.commit(half)
    if isinstance(stage, OurStage):
        says = TransactionTable.__len__(stage.broker.coordinator.table)  # len() would refuse a negative one
    else:
        await stage.comes_true(lambda: _gauge(stage, topic) != 0, GAUGE_WRITTEN_S)
        says = _gauge(stage, topic)
    return Observed(int(says != 0), 1, f"{HALVES} halves, each committed twice: {says} open")


def _gauge(stage: Stage, topic: str) -> int:
    """What an Apache broker has written of its count; 0 while it has not."""
    assert isinstance(stage, ApacheStage)
    counts = 0
    for file in stage._house.cluster.directory.glob("store-*/config/transactionMetrics"):
        try:
            counts += json.loads(file.read_text())["transactionCount"][topic]["count"]
        except (ValueError, KeyError):
            continue
    return int(counts)


# ---- without the fixes


def _nothing_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(topics, "_KEPT", frozenset())


def _counted_by_events(patch: pytest.MonkeyPatch) -> None:
    made: list[TransactionCounts] = []
    ordinary = TransactionCounts.__init__

    def remember(counts: TransactionCounts) -> None:
        ordinary(counts)
        made.append(counts)

    def length(_table: TransactionTable) -> int:
        counts = made[-1]
        return counts.halves - counts.commits - counts.rollbacks - counts.repeated

    patch.setattr(TransactionCounts, "__init__", remember)
    patch.setattr(TransactionTable, "__len__", length)


CASES = [
    Case(
        "deleting the topics", _deleted, (Mutant("the refusal to delete", _nothing_is_kept),), both(Apache.NEVER),
    ),
    Case(
        "the number of open ones", _counted, (Mutant("the count by the table", _counted_by_events),),
        {"4.9.7": Apache.NEVER, "5.5.0": Apache.ALWAYS},
    ),
]  # fmt: skip


def test_hole_28_system_topics(played: Callable[[], None]) -> None:
    played()
