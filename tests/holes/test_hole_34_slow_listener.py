"""Hole 34: one slow check delays all other checks of the client.

Apache's clients check in one thread. Ours has several. It does not call the listener for a transaction whose local
transaction is still running in this process, but answers UNKNOWN, and the broker asks again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from gantrymq.aio import LocalTransactionState, Message, MessageView
from gantrymq.client.sending.check_back import CheckBack
from gantrymq.client.sending.half_memory import HalfMemory
from gantrymq.errors import TransactionConflict
from tests.holes.case import Apache, Case, Mutant, NotRepeated, Observed, both
from tests.holes.our_client import NAME_SERVER, our_client
from tests.holes.stage import INTERVAL_S, Stage

TRIES = 5
SLOW = b"slow"


class OneIsSlow:
    async def execute_local_transaction(self, _message: Message, _arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        if message.body == SLOW:
            await asyncio.Event().wait()
        return LocalTransactionState.COMMIT


async def _behind_a_slow_one(stage: Stage) -> Observed:
    topic = await stage.topic()
    async with our_client(stage, OneIsSlow()) as producer:
        for body in (SLOW, *[b"paid"] * TRIES):
            await producer.send_in_transaction(Message(topic, body))
        await stage.sleep(stage.timeout_s + INTERVAL_S * 3)
        delivered = len(await stage.keys(topic))
    return Observed(TRIES - delivered, TRIES, f"{delivered} delivered")


class Running:
    """Its local transaction takes longer than the immunity; its checker would wrongly say that it never was."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.checked = 0

    async def execute_local_transaction(self, _message: Message, _arg: object) -> LocalTransactionState:
        await self.stage.sleep(self.stage.timeout_s + INTERVAL_S * 2.5)
        return LocalTransactionState.COMMIT

    async def check_local_transaction(self, _message: MessageView) -> LocalTransactionState:
        self.checked += 1
        return LocalTransactionState.ROLLBACK


async def _while_it_runs(stage: Stage) -> Observed:
    topic = await stage.topic()
    listener = Running(stage)
    async with our_client(stage, listener) as producer:
        with contextlib.suppress(TransactionConflict):
            await producer.send_in_transaction(Message(topic, b"paid"))
        delivered = await stage.comes_true(lambda: _something(stage, topic), INTERVAL_S)
    return Observed(int(not delivered or listener.checked > 0), 1, f"{listener.checked} asked, delivered: {delivered}")


async def _something(stage: Stage, topic: str) -> bool:
    return bool(await stage.keys(topic))


def _one_thread(patch: pytest.MonkeyPatch) -> None:
    ordinary = CheckBack.__init__

    def init(self: CheckBack, *arguments: object) -> None:
        ordinary(self, *arguments)  # type: ignore[arg-type]
        self._free = asyncio.Semaphore(1)

    patch.setattr(CheckBack, "__init__", init)


def _ask_anyway(patch: pytest.MonkeyPatch) -> None:
    known = HalfMemory.answer

    def answer(self: HalfMemory, *arguments: object) -> LocalTransactionState | None:
        state = known(self, *arguments)  # type: ignore[arg-type]
        return None if state is LocalTransactionState.UNKNOWN else state

    patch.setattr(HalfMemory, "answer", answer)


OURS = {"namesrv_addr": NAME_SERVER}
CASES = [
    Case(
        "checks behind a slow one", _behind_a_slow_one, (Mutant("more than one check at a time", _one_thread),),
        both(Apache.NEVER), ours=OURS,
    ),
    Case(
        "a check while the local transaction runs", _while_it_runs,
        (Mutant("the memory of what runs here", _ask_anyway),),
        NotRepeated(
            "is in the client: official Java clients 4.9.8 and 5.5.0 check one after the other, "
            "`tests/interop/test_java_checks.py`"
        ), ours=OURS,
    ),
]  # fmt: skip


def test_hole_34_slow_listener(played: Callable[[], None]) -> None:
    played()
