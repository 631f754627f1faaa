"""Hole 35: an UNKNOWN at the first end has no effect.

Apache's brokers log it and do not even answer. The half message is checked when the scan comes to it. Ours answers it,
records it, and checks exactly when the immunity ends. It does not check earlier, because another process may still
decide a local transaction whose end was UNKNOWN, and a checker that answers ROLLBACK for a transaction that it does not
find yet would be wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.end_transaction import EndTransactionHandler
from gantrymq.broker.transactions.check_schedule import CheckSchedule
from gantrymq.errors import GantryError
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.holes.actors import Half, Producer
from tests.holes.case import Apache, Case, Mutant, NotRepeated, Observed, both
from tests.holes.stage import INTERVAL_S, OurStage, Stage, require

TRIES = 5
ANSWER_MS = 1_500
LATE_S = 0.05


async def _is_answered(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    answers = [await _tells_unknown(producer, half) for half in halves]
    return Observed(answers.count(False), TRIES, f"answered: {answers}")


async def _tells_unknown(producer: Producer, half: Half) -> bool:
    queue_offset, log_offset = half.place
    header = EndTransaction(
        producer_group=producer.group, tran_state_table_offset=queue_offset, commit_log_offset=log_offset,
        commit_or_rollback=int(Resolution.UNKNOWN), from_transaction_check=False, msg_id=half.key,
    )  # fmt: skip
    client = producer._client
    try:
        await client.call(producer._address(), RequestCode.END_TRANSACTION, header, b"", timeout_ms=ANSWER_MS)
    except GantryError:
        return False
    return True


async def _is_asked_in_time(stage: Stage) -> Observed:
    """The next check comes when the immunity ends: no earlier, no later."""
    assert isinstance(stage, OurStage)
    topic, producer = await stage.topic(), await stage.producer()
    halves = []
    for _ in range(TRIES):
        halves.append(await producer.half(topic))
        await _tells_unknown(producer, halves[-1])
        await stage.sleep(INTERVAL_S / 3)
    require(stage.broker.coordinator.counts.unknowns == TRIES, "every UNKNOWN is noted")
    await stage.until(lambda: all(producer.checks_of(half) for half in halves), "every half is checked")
    after = [producer.checks_of(half)[0].at - half.sent_at - stage.timeout_s for half in halves]
    wrong = sum(not -LATE_S < seconds < LATE_S for seconds in after)
    return Observed(wrong, TRIES, f"{[round(seconds, 3) for seconds in after]} s after the immunity")


def _no_answer(patch: pytest.MonkeyPatch) -> None:
    handle = EndTransactionHandler.handle

    def silent(self: EndTransactionHandler, session: ClientSession, command: Command) -> None:
        if command.header(EndTransaction).commit_or_rollback != Resolution.UNKNOWN:
            handle(self, session, command)

    patch.setattr(EndTransactionHandler, "handle", silent)


def _at_the_next_tick(patch: pytest.MonkeyPatch) -> None:
    """As a scan with an interval does it."""
    put = CheckSchedule.put

    def at_a_tick(schedule: CheckSchedule, half: OpenHalf, due: float) -> None:
        put(schedule, half, (due // INTERVAL_S + 1) * INTERVAL_S)

    patch.setattr(CheckSchedule, "put", at_a_tick)


CASES = [
    Case(
        "the answer to an UNKNOWN", _is_answered, (Mutant("the answer", _no_answer),), both(Apache.ALWAYS),
    ),
    Case(
        "the check after an UNKNOWN", _is_asked_in_time, (Mutant("the exact time", _at_the_next_tick),),
        NotRepeated("checks of Apache's brokers come with the scan: 4.5 s after the send with a timeout of 4 s"),
    ),
]  # fmt: skip


def test_hole_35_unknown_at_the_first_end(played: Callable[[], None]) -> None:
    played()
