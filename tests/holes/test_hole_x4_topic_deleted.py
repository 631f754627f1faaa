"""X4: the topic is deleted between half message and commit.

Apache's brokers answer SUCCESS, and store the message where no consumer can read it. Ours refuses the commit with
TOPIC_NOT_EXIST, and keeps the half message open. When the topic exists again, the next end, or the answer to the next
check, delivers it. If the topic now has fewer queues, the message goes to one of those.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.broker.transactions.endings import TransactionEndings
from gantrymq.message.system_topics import AUTO_CREATE
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.topics import CreateTopic, TopicOnly
from gantrymq.transactions.rules.resolve import EndAction
from gantrymq.transactions.rules.states import State
from tests.holes.actors import always
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.mutants import other_action
from tests.holes.stage import INTERVAL_S, Stage, require

TRIES = 3
MANY_QUEUES = 1 << 20


async def _deleted(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    answer = await stage.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic=topic))
    require(answer.code == ResponseCode.SUCCESS, f"the topic was not deleted: {answer.remark}")
    codes = [(await producer.commit(half)).code for half in halves]
    lost = codes.count(ResponseCode.SUCCESS)
    return Observed(lost, TRIES, f"answers {codes}")


async def _made_again(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    await stage.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic=topic))
    for half in halves:
        await producer.commit(half)
    producer.answer = always(Resolution.COMMIT)
    await _make(stage, topic, 1)
    await stage.sleep(stage.timeout_s + 3 * INTERVAL_S)
    keys = await stage.keys(topic)
    return Observed(sum(keys.count(half.key) != 1 for half in halves), TRIES, f"{len(keys)} delivered")


async def _with_fewer_queues(stage: Stage) -> Observed:
    """The halves are for queue 3, and the topic has one queue when they are committed."""
    topic, producer = stage.new_name("T"), await stage.producer()
    await _make(stage, topic, 4)
    halves = [await producer.half(topic, queue_id=3) for _ in range(TRIES)]
    await _make(stage, topic, 1)
    codes = [(await producer.commit(half)).code for half in halves]
    await stage.comes_true(lambda: _all_there(stage, topic), INTERVAL_S)
    keys = await stage.keys(topic)
    return Observed(sum(keys.count(half.key) != 1 for half in halves), TRIES, f"answers {codes}, {len(keys)} readable")


async def _all_there(stage: Stage, topic: str) -> bool:
    return len(await stage.keys(topic)) >= TRIES


async def _make(stage: Stage, topic: str, queues: int) -> None:
    header = CreateTopic(
        topic=topic, default_topic=AUTO_CREATE, read_queue_nums=queues, write_queue_nums=queues, perm=6,
        topic_filter_type="SINGLE_TAG", order=False,
    )  # fmt: skip
    answer = await stage.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    require(answer.code == ResponseCode.SUCCESS, f"the topic was not made: {answer.remark}")


def _its_own_queue(patch: pytest.MonkeyPatch) -> None:
    ordinary = TransactionEndings.commit
    patch.setattr(
        TransactionEndings, "commit", lambda self, half, _queues, *more: ordinary(self, half, MANY_QUEUES, *more)
    )


def _deliver_anyway(patch: pytest.MonkeyPatch) -> None:
    other_action(State.OPEN, Resolution.COMMIT, EndAction.COMMIT, "").patch(patch)
    _its_own_queue(patch)


ANYWAY = Mutant("the refusal while the topic is gone", _deliver_anyway)
ROLLED_BACK = other_action(State.OPEN, Resolution.COMMIT, EndAction.ROLL_BACK, "the half that stays open")
CASES = [
    Case("a commit to a deleted topic", _deleted, (ANYWAY,), both(Apache.ALWAYS)),
    Case("the topic is made again", _made_again, (ROLLED_BACK,), both(Apache.NEVER)),
    Case(
        "the topic has fewer queues", _with_fewer_queues, (Mutant("the queue that exists", _its_own_queue),),
        both(Apache.ALWAYS),
    ),
]  # fmt: skip


def test_hole_x4_topic_deleted(played: Callable[[], None]) -> None:
    played()
