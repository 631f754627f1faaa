"""Hole 23: a decision after the half message's own immunity is refused, and the producer does not notice.

Apache 5.5.0 answers 604 to a COMMIT that comes later than CHECK_IMMUNITY_TIME_IN_SECONDS. Official clients send it
one-way, so the refusal is lost. Ours: an open half message accepts its decision at any time. And our client sends the
end two-way, so on every broker it can report whether the decision was accepted.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.aio import LocalTransactionState, Message, MessageView
from gantrymq.broker.client import Client
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.end import Done, EndOperation, EndRequest
from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.results import TransactionSendResult
from gantrymq.client.sending.half_ends import HalfEnds, result_of
from gantrymq.client.sending.half_memory import HalfMemory
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.errors import TransactionConflict
from gantrymq.message import properties
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.our_client import NAME_SERVER, our_client
from tests.holes.stage import Stage

TRIES = 5
IMMUNITY_S = 3
LATE_S = 4.0
KEY = "late"


async def _late(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES, **{properties.CHECK_IMMUNITY_SECONDS: str(IMMUNITY_S)})
    await stage.sleep(LATE_S)
    codes = [(await producer.commit(half)).code for half in halves]
    await stage.comes_true(lambda: _all_there(stage, topic), 1.0)
    keys = await stage.keys(topic)
    missing = sum(half.key not in keys or code != 0 for half, code in zip(halves, codes, strict=True))
    return Observed(missing, TRIES, f"answers {codes}")


async def _all_there(stage: Stage, topic: str) -> bool:
    return len(await stage.keys(topic)) >= TRIES


class Slow:
    """A local transaction that takes longer than the immunity of its message."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def execute_local_transaction(self, _message: Message, _arg: object) -> LocalTransactionState:
        await self.stage.sleep(LATE_S)
        return LocalTransactionState.COMMIT

    async def check_local_transaction(self, _message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


async def _reported_by_our_client(stage: Stage) -> Observed:
    topic = await stage.topic()
    async with our_client(stage, Slow(stage)) as producer:
        message = Message(topic, b"paid")
        message.properties[properties.CHECK_IMMUNITY_SECONDS] = str(IMMUNITY_S)
        try:
            decided = (await producer.send_in_transaction(message, transaction_id=KEY)).decided
        except TransactionConflict:
            decided = False
        delivered = await stage.comes_true(lambda: _holds(stage, topic, KEY), 1.0)
    return Observed(int(decided and not delivered), 1, f"decided: {decided}, delivered: {delivered}")


async def _holds(stage: Stage, topic: str, key: str) -> bool:
    return key in await stage.keys(topic)


# ---- without the fixes


def _refuse_late(patch: pytest.MonkeyPatch) -> None:
    """The rule of 5.1.1 and later."""
    end = EndOperation.end

    def end_in_time(self: EndOperation, client: Client, request: EndRequest, done: Done | None) -> None:
        half = self._table.at(request.queue_offset, request.log_offset)
        if half is not None and not request.answers_check and half.immunity_ms == IMMUNITY_S * 1000:
            raise Refused(Refusal.CONFLICT, "the decision comes too late")
        end(self, client, request, done)

    patch.setattr(EndOperation, "end", end_in_time)


def _refuse_and_send_one_way(patch: pytest.MonkeyPatch) -> None:
    """What official clients do; they do not remember their decision for the next check either."""
    _refuse_late(patch)
    patch.setattr(HalfMemory, "ended", lambda *_: None)

    async def one_way(self: HalfEnds, half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        self.tell_unknown(half, outcome)
        return result_of(half, outcome, decided=True)

    patch.setattr(HalfEnds, "decide", one_way)


CASES = [
    Case(
        "a commit after the immunity", _late, (Mutant("the acceptance of late decisions", _refuse_late),),
        {"4.9.7": Apache.NEVER, "5.5.0": Apache.ALWAYS},
    ),
    Case(
        "what our client tells", _reported_by_our_client, (Mutant("the two-way end", _refuse_and_send_one_way),),
        both(Apache.NEVER), ours={"namesrv_addr": NAME_SERVER},
    ),
]  # fmt: skip


def test_hole_23_late_decisions(played: Callable[[], None]) -> None:
    played()
