"""Hole 29: an END_TRANSACTION that waits for more than 3 s is dropped, although it was sent only once, one-way.

While the disk of an Apache broker hangs, ends queue up. Those that waited for longer than
waitTimeMillsInTransactionQueue are answered SYSTEM_BUSY and not executed. Ours executes an end as soon as it is read,
and answers when the record is on the disk, however late; repeating an end is harmless. Our client sends ends two-way,
and repeats those that were not accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gantrymq.aio import LocalTransactionState, Message, MessageView
from gantrymq.broker.client import Client
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.transactions.end import Done, EndOperation, EndRequest
from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.results import TransactionSendResult
from gantrymq.client.sending.half_ends import HalfEnds, result_of
from gantrymq.client.sending.half_memory import HalfMemory
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.errors import RequestRejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command
from tests.holes.case import Case, Mutant, NotRepeated, Observed
from tests.holes.our_client import NAME_SERVER, our_client
from tests.holes.stage import OurStage, Stage
from tests.support.doors import remoting

ENDS = 50
HANGS_S = 4.5
APACHE_WAITS_S = 3.0
NEEDS_A_HANG = NotRepeated(
    "needs a disk that hangs: a preloaded library that holds fsync; seen on both, 188 of 200 answered SYSTEM_BUSY"
)


async def _disk_hangs(stage: Stage) -> Observed:
    assert isinstance(stage, OurStage)
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, ENDS)
    stage.disk.hold_syncs = True
    ends = [asyncio.ensure_future(producer.commit(half)) for half in halves]
    await stage.sleep(HANGS_S)
    stage.disk.hold_syncs = False
    stage.disk.close()  # lets go of all that waited
    codes = [answer.code for answer in await asyncio.gather(*ends)]
    keys = await stage.keys(topic)
    wrong = sum(code != 0 or keys.count(half.key) != 1 for half, code in zip(halves, codes, strict=True))
    return Observed(wrong, ENDS, f"answers {set(codes)}")


class Listener:
    async def execute_local_transaction(self, _message: Message, _arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    async def check_local_transaction(self, _message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


async def _our_client_repeats(stage: Stage) -> Observed:
    """A broker that drops the first end of each half. The checks do not help: nobody is asked for a minute."""
    assert isinstance(stage, OurStage)
    topic = await stage.topic()
    dropped: set[str] = set()
    handle = remoting(stage.broker).handlers[37]

    def drop_first(session: ClientSession, command: Command) -> bytes | None:
        key = command.ext_fields()["msgId"]
        if key not in dropped:
            dropped.add(key)
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]broker busy")
        return handle(session, command)

    remoting(stage.broker).handlers[37] = drop_first  # type: ignore[assignment]
    async with our_client(stage, Listener()) as producer:
        results = [await producer.send_in_transaction(Message(topic, b"paid")) for _ in range(3)]
    delivered = len(await stage.keys(topic))
    return Observed(3 - delivered, 3, f"decided: {[result.decided for result in results]}")


# ---- without the fixes


def _drop_after_3_s(patch: pytest.MonkeyPatch) -> None:
    end = EndOperation.end

    def end_in_time(self: EndOperation, client: Client, request: EndRequest, done: Done | None) -> None:
        assert done is not None
        busy = Refused(Refusal.BUSY, "[TIMEOUT_CLEAN_QUEUE]broker busy")
        self._endings._clock.call_later(APACHE_WAITS_S, lambda: done(busy))
        end(self, client, request, done)

    patch.setattr(EndOperation, "end", end_in_time)


def _once_one_way(patch: pytest.MonkeyPatch) -> None:
    async def one_way(self: HalfEnds, half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        self.tell_unknown(half, outcome)
        return result_of(half, outcome, decided=True)

    patch.setattr(HalfEnds, "decide", one_way)
    patch.setattr(HalfMemory, "ended", lambda *_: None)


CASES = [
    Case(
        "ends while the disk hangs", _disk_hangs, (Mutant("answers that may be late", _drop_after_3_s),),
        NEEDS_A_HANG, ours={"transaction_time_out": 60_000},
    ),
    Case(
        "our client repeats the end", _our_client_repeats,
        (Mutant("the two-way end with retries", _once_one_way),),
        NotRepeated("is about our client; official ones send once, one-way"),
        ours={"transaction_time_out": 60_000, "namesrv_addr": NAME_SERVER},
    ),
]  # fmt: skip


def test_hole_29_ends_that_wait(played: Callable[[], None]) -> None:
    played()
