"""The half messages of one local transaction: they are sent at the same time, and all of them end the same way.

| the transaction             | what happens here                                              |
|-----------------------------|----------------------------------------------------------------|
| takes another message       | ``add``: its half message is on its way                        |
| rolled a savepoint back      | ``drop``: the messages since then are rolled back              |
| is about to commit          | ``stored``: waits until brokers have stored all half messages, |
|                             | and have rolled back those that were dropped                   |
| has committed, or will not  | ``end``: tells the brokers, of each half that was stored       |
| was forgotten by everybody  | ``abandon``: the same, without anybody who waits               |

``end`` may be called while half messages are still on their way, for example when another one could not be sent. Each
of them is ended as soon as its broker has answered.

A half message that was dropped has the same transaction id as the others. If it stayed open until after the commit, a
check-back would find that the transaction is committed, and would deliver it. So the commit waits for its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.results import SendStatus, TransactionSendResult
from gantrymq.client.sending.longest import LongestTime
from gantrymq.client.sending.open_half import OpenHalf
from gantrymq.errors import Closed, GantryError, HalfNotStored, TransactionConflict
from gantrymq.message.message import Message
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.client")
T = TypeVar("T")

ROLLBACK: Final = ListenerAnswer(LocalTransactionState.ROLLBACK)


class HalfSender(Protocol):
    """What sends half messages and their ends: a TransactionProducer."""

    async def begin(
        self, message: Message, transaction_id: str | None = None, longest: LongestTime | None = None
    ) -> OpenHalf:
        """Send a half message; return when a broker has stored it."""

    async def finish(self, half: OpenHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        """Tell its broker how the local transaction ended."""

    async def finish_late(self, half: OpenHalf, outcome: ListenerAnswer) -> None:
        """``finish`` did not decide it: repeat it for a while, until the broker has answered."""


class _Half:
    """One message of the transaction: its half message, and its end."""

    __slots__ = ("begun", "ended")

    def __init__(self, begun: asyncio.Task[OpenHalf | GantryError]) -> None:
        self.begun = begun
        self.ended: asyncio.Task[TransactionSendResult | GantryError] | None = None


class Halves:
    """The half messages of one local transaction. All methods but ``abandon`` and ``are_stored`` belong to the
    client's event loop."""

    def __init__(self, sender: HalfSender, tasks: TaskGroupOwner, longest: LongestTime | None = None) -> None:
        """``longest``: how long the local transaction may take; None: for ever."""
        self.longest: Final = longest
        self._sender = sender
        self._tasks = tasks
        self._halves: dict[int, _Half] = {}
        self._dropped: list[_Half] = []
        self._safe = 0
        """How many half messages brokers have stored."""
        self._outcome: ListenerAnswer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """Known with the first message."""
        self._abandoned: ListenerAnswer | None = None

    def add(self, number: int, message: Message) -> None:
        """Send the half message of ``message`` now, without waiting for the broker. ``number`` names it here."""
        self._loop = asyncio.get_running_loop()
        half = self._halves[number] = _Half(self._tasks.start("half", self._begin(message)))
        if self._outcome is not None:  # the transaction ended before this message arrived here
            self._end(half, self._outcome)
        elif self._abandoned is not None:
            self._end_abandoned(self._abandoned)

    def drop(self, numbers: Sequence[int]) -> None:
        """Roll back these messages now, whatever becomes of the others: their savepoint was rolled back."""
        for number in numbers:
            half = self._halves.pop(number)
            self._dropped.append(half)
            self._end(half, ROLLBACK)

    async def _begin(self, message: Message) -> OpenHalf | GantryError:
        try:
            half = await self._sender.begin(message, None, self.longest)
        except GantryError as error:
            return error
        if half.result.status is SendStatus.SEND_OK:
            self._safe += 1
        return half

    def are_stored(self, count: int) -> bool:
        """Whether ``stored`` would return at once after ``count`` calls of ``add`` and none of ``drop``.

        From any thread. A thread that need not wait saves two switches between threads, which cost more than the rest.
        """
        return self._safe == count

    async def stored(self) -> None:
        """Return when brokers have stored all half messages so far, and have rolled back the dropped ones.

        Raises the error of the first one that could not be sent or rolled back, or HalfNotStored when a broker did not
        confirm that it is on its disk.
        """
        known = -1
        while known != len(self._halves):  # while we wait, somebody else may add one
            known = len(self._halves)
            await self._all_stored()
        for half in self._dropped:
            begun = await _begun(half)
            assert half.ended is not None
            ended = await _result_of(half.ended)
            if isinstance(ended, GantryError):
                raise ended
            if not ended.decided:
                raise ended.decision_error or HalfNotStored(begun.message.topic, "its rollback is not confirmed")

    async def _all_stored(self) -> None:
        for half in list(self._halves.values()):
            begun = await _begun(half)
            if begun.result.status is not SendStatus.SEND_OK:
                raise HalfNotStored(begun.message.topic, begun.result.status.name)

    async def end(self, outcome: ListenerAnswer) -> Sequence[TransactionSendResult]:
        """``begin_to_end`` and ``ended``."""
        self.begin_to_end(outcome)
        return await self.ended()

    def begin_to_end(self, outcome: ListenerAnswer) -> None:
        """End every half message as ``outcome`` says, all at the same time. The first outcome counts."""
        if self._outcome is None:
            self._outcome = outcome
            for half in self._halves.values():
                self._end(half, outcome)

    async def ended(self) -> Sequence[TransactionSendResult]:
        """Wait for the brokers' answers to ``begin_to_end``. A caller that is cancelled does not stop the ends.

        Raises TransactionConflict when a broker had decided otherwise before. An end that did not reach its broker
        is in the results (``decided`` is False), or is missing when the client was closed: the broker will ask.
        """
        ends = [half.ended for half in self._halves.values() if half.ended is not None]
        for end in ends:
            await _done(end)
        results = [end.result() for end in ends if not end.cancelled()]
        for result in results:
            if isinstance(result, TransactionConflict):
                raise result
        return [result for result in results if isinstance(result, TransactionSendResult)]

    def abandon(self, outcome: ListenerAnswer) -> None:
        """``begin_to_end`` soon, when nobody holds the transaction any longer. From any thread, also while the garbage
        collector runs: nothing here waits, or takes a lock of ours.

        The first ``add`` may be under way on the loop. It sets the loop and then looks at ``_abandoned``, and here it
        is the other way round: so one of the two sees what the other one did.
        """
        self._abandoned = outcome
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._end_abandoned, outcome)

    def _end_abandoned(self, outcome: ListenerAnswer) -> None:
        if self._outcome is None and self._halves:
            log.warning(
                "a local transaction with %d message(s) was forgotten: it was neither committed nor rolled back, and "
                "its session or connection was not closed. It ends as %s", len(self._halves), outcome.state.name
            )  # fmt: skip
        self.begin_to_end(outcome)

    def _end(self, half: _Half, outcome: ListenerAnswer) -> None:
        half.ended = self._tasks.start("end of a half", self._end_one(half.begun, outcome))

    async def _end_one(
        self, begun: asyncio.Task[OpenHalf | GantryError], outcome: ListenerAnswer
    ) -> TransactionSendResult | GantryError:
        await _done(begun)
        if begun.cancelled():
            return _closed()
        half = begun.result()
        if isinstance(half, GantryError):
            return half
        try:
            result = await self._sender.finish(half, outcome)
        except GantryError as error:
            return error
        if not result.decided:
            # Its broker or the database was away. The broker does not know that the local transaction is over, and lets
            # the half wait for as long as one may take, which is a minute by default.
            self._tasks.start("late end of a half", self._sender.finish_late(half, outcome))
        return result


async def _begun(half: _Half) -> OpenHalf:
    begun = await _result_of(half.begun)
    if isinstance(begun, GantryError):
        raise begun
    return begun


async def _result_of(task: asyncio.Task[T]) -> T:
    """Of a task that goes on when we are cancelled. Raises Closed when the client was closed in the meantime."""
    await _done(task)
    if task.cancelled():
        raise _closed()
    return task.result()


async def _done(task: asyncio.Task[Any]) -> None:
    """Wait for a task that goes on when we are cancelled: ``asyncio.wait`` for one, at a third of its cost."""
    if task.done():
        return
    waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: asyncio.Task[Any]) -> None:
        if not waits.done():
            waits.set_result(None)

    task.add_done_callback(wake)
    try:
        await waits
    finally:
        task.remove_done_callback(wake)


def _closed() -> Closed:
    return Closed("the client was closed before the half message was stored or ended")
