"""The half messages of one local transaction: they are sent at the same time, and all of them end the same way.

| the transaction             | what happens here                                              |
|-----------------------------|----------------------------------------------------------------|
| takes another message       | ``add``: its half message is on its way                        |
| rolled a savepoint back      | ``drop``: the messages since then are rolled back              |
| is about to commit          | ``stored``: waits until brokers have stored all half messages  |
| has committed, or will not  | ``end``: tells the brokers, of each half that was stored       |

``end`` may be called while half messages are still on their way, for example when another one could not be sent. Each
of them is ended as soon as its broker has answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.results import SendStatus, TransactionSendResult
from gantrymq.client.sending.open_half import OpenHalf
from gantrymq.errors import GantryError, HalfNotStored, TransactionConflict
from gantrymq.message.message import Message
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.tasks import TaskGroupOwner

ROLLBACK: Final = ListenerAnswer(LocalTransactionState.ROLLBACK)


class HalfSender(Protocol):
    """What sends half messages and their ends: a TransactionProducer."""

    async def begin(self, message: Message, transaction_id: str | None = None) -> OpenHalf:
        """Send a half message; return when a broker has stored it."""

    async def finish(self, half: OpenHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        """Tell its broker how the local transaction ended."""


class _Half:
    """One message of the transaction: its half message, and its end."""

    __slots__ = ("begun", "ended")

    def __init__(self, begun: asyncio.Task[OpenHalf | GantryError]) -> None:
        self.begun = begun
        self.ended: asyncio.Task[TransactionSendResult | GantryError] | None = None


class Halves:
    """The half messages of one local transaction. All methods belong to the event loop of the client."""

    def __init__(self, sender: HalfSender, tasks: TaskGroupOwner) -> None:
        self._sender = sender
        self._tasks = tasks
        self._halves: dict[int, _Half] = {}
        self._outcome: ListenerAnswer | None = None

    def add(self, number: int, message: Message) -> None:
        """Send the half message of ``message`` now, without waiting for the broker. ``number`` names it here."""
        half = self._halves[number] = _Half(self._tasks.start("half", self._begin(message)))
        if self._outcome is not None:  # the transaction ended before this message arrived here
            self._end(half, self._outcome)

    def drop(self, numbers: Sequence[int]) -> None:
        """Roll back these messages now, whatever becomes of the others: their savepoint was rolled back."""
        for number in numbers:
            self._end(self._halves.pop(number), ROLLBACK)

    async def _begin(self, message: Message) -> OpenHalf | GantryError:
        try:
            return await self._sender.begin(message)
        except GantryError as error:
            return error

    async def stored(self) -> None:
        """Return when brokers have stored all half messages so far.

        Raises the error of the first one that could not be sent, or HalfNotStored when a broker did not confirm that it
        is on its disk.
        """
        for half in list(self._halves.values()):
            if not half.begun.done():
                await asyncio.wait([half.begun])
            begun = half.begun.result()
            if isinstance(begun, GantryError):
                raise begun
            if begun.result.status is not SendStatus.SEND_OK:
                raise HalfNotStored(begun.message.topic, begun.result.status.name)

    async def end(self, outcome: ListenerAnswer) -> Sequence[TransactionSendResult]:
        """End every half message as ``outcome`` says, all at the same time, and wait for the brokers' answers.

        The first outcome counts; a later call waits for its results. A caller that is cancelled does not stop the ends.
        Raises TransactionConflict when a broker had decided otherwise before. An end that did not reach its broker
        is in the results (``decided`` is False): the broker will ask.
        """
        if self._outcome is None:
            self._outcome = outcome
            for half in self._halves.values():
                self._end(half, outcome)
        ends = [half.ended for half in self._halves.values() if half.ended is not None]
        if ends:
            await asyncio.wait(ends)
        results = [end.result() for end in ends]
        for result in results:
            if isinstance(result, TransactionConflict):
                raise result
        return [result for result in results if isinstance(result, TransactionSendResult)]

    def _end(self, half: _Half, outcome: ListenerAnswer) -> None:
        half.ended = self._tasks.start("end of a half", self._end_one(half.begun, outcome))

    async def _end_one(
        self, begun: asyncio.Task[OpenHalf | GantryError], outcome: ListenerAnswer
    ) -> TransactionSendResult | GantryError:
        if not begun.done():
            await asyncio.wait([begun])
        half = begun.result()
        if isinstance(half, GantryError):
            return half
        try:
            return await self._sender.finish(half, outcome)
        except GantryError as error:
            return error
