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

Everything here is callbacks on the client's event loop. As long as the first attempts succeed, a local transaction
needs no task, which would cost more than all the rest.

A half message that was dropped has the same transaction id as the others. If it stayed open until after the commit, a
check-back would find that the transaction is committed, and would deliver it. So the commit waits for its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.results import SendStatus, TransactionSendResult
from gantrymq.client.sending.callbacks import in_task
from gantrymq.client.sending.longest_transaction import LongestTransaction
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.client.tracing.watch import LocalTransaction
from gantrymq.errors import Closed, HalfNotStored, TransactionConflict
from gantrymq.message.message import Message
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.client")

ROLLBACK: Final = ListenerAnswer(LocalTransactionState.ROLLBACK)
Begun: TypeAlias = SentHalf | BaseException
Ended: TypeAlias = TransactionSendResult | BaseException
Done: TypeAlias = Callable[[Any, BaseException | None], None]
"""Called once with the result, or with the error."""


class HalfSender(Protocol):
    """What sends half messages and their ends: a TransactionProducer."""

    def begin_now(
        self, message: Message, longest: LongestTransaction | None, then: Callable[[Begun], None],
        order_key: str | None = None,
    ) -> bool:  # fmt: skip
        """``begin`` without a task: ``then`` gets what it would return or raise. False: nothing was done, because
        something must be waited for first. The message belongs to the sender from now on."""

    async def begin(
        self, message: Message, transaction_id: str | None = None, longest: LongestTransaction | None = None,
        order_key: str | None = None,
    ) -> SentHalf:  # fmt: skip
        """Send a half message; return when a broker has stored it. ``order_key``: chooses its queue."""

    async def finish(self, half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        """Tell its broker how the local transaction ended."""

    async def finish_late(self, half: SentHalf, outcome: ListenerAnswer) -> None:
        """``finish`` did not decide it: repeat it for a while, until the broker has answered."""


class _Half:
    """One message of the transaction: its half message, and its end. None: not yet."""

    __slots__ = ("begun", "dropped", "ended", "outcome")

    def __init__(self) -> None:
        self.begun: Begun | None = None
        self.outcome: ListenerAnswer | None = None
        """How it is to end."""
        self.ended: Ended | None = None
        self.dropped = False


class Halves:
    """The half messages of one local transaction. Methods belong to the client's event loop, except ``abandon``,
    ``are_stored`` and ``tell_thread``."""

    def __init__(
        self, sender: HalfSender, tasks: TaskGroupOwner, longest: LongestTransaction | None = None,
        local: LocalTransaction | None = None,
    ) -> None:  # fmt: skip
        """``longest``: how long the local transaction may take; None: for ever. ``local``: who records it."""
        self.longest: Final = longest
        self._local = local
        self._sender = sender
        self._tasks = tasks
        self._halves: dict[int, _Half] = {}
        self._dropped: list[_Half] = []
        self._safe = 0
        """How many half messages brokers have stored."""
        self._unready = 0
        """How many steps the commit waits for: halves that are on their way, and the ends of dropped ones."""
        self._ending = 0
        """How many ends are not answered, those of dropped ones not counted."""
        self._failed: BaseException | None = None
        """Why the transaction cannot commit: the first error of a half message."""
        self._outcome: ListenerAnswer | None = None
        self._answered = 0
        """How many half messages were answered, by a broker or by an error."""
        self._listens: tuple[int, Done] | None = None
        """A thread that waits for so many answers; see ``tell_thread``."""
        self._waiting: list[Callable[[], bool]] = []
        """Who waits: each is called after every step, until it returns True."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """Known with the first message."""
        self._abandoned: ListenerAnswer | None = None

    def add(self, number: int, message: Message, order_key: str | None = None) -> None:
        """Send the half message of ``message`` now, without waiting for the broker. ``number`` names it here. The
        message belongs to us from now on. ``order_key``: its queue is that of all messages with this key."""
        self._loop = asyncio.get_running_loop()
        half = self._halves[number] = _Half()
        self._unready += 1
        then = partial(self._begun, half)
        if self._local is None:
            self._begin(message, then, order_key)
        else:
            with self._local.current():
                self._begin(message, then, order_key)
        if self._outcome is not None:  # the transaction ended before this message arrived here
            self._end(half, self._outcome)
        elif self._abandoned is not None:
            self._end_abandoned(self._abandoned)

    def _begin(self, message: Message, then: Callable[[Begun], None], order_key: str | None) -> None:
        try:
            if not self._sender.begin_now(message, self.longest, then, order_key):
                in_task(self._tasks, "half", self._sender.begin(message, None, self.longest, order_key), then)
        except Exception as error:  # noqa: BLE001 - it belongs to the commit
            then(error)

    def drop(self, numbers: Sequence[int]) -> None:
        """Roll back these messages now, whatever becomes of the others: their savepoint was rolled back."""
        if self._outcome is not None:
            return
        for number in numbers:
            half = self._halves.pop(number)
            half.dropped = True
            self._dropped.append(half)
            self._unready += 1
            self._end(half, ROLLBACK)

    def _begun(self, half: _Half, begun: Begun) -> None:
        half.begun = begun
        if isinstance(begun, BaseException):
            self._failed = self._failed or begun
        elif begun.result.status is SendStatus.SEND_OK:
            self._safe += 1
        self._unready -= 1
        self._answered += 1
        if half.outcome is not None:
            self._send_end(half, begun, half.outcome)
        self._step()
        self._tell_thread()

    def longest_commits(self) -> bool:
        """The commit begins, unless a check has given the transaction up: then False."""
        return self.longest is None or self.longest.commit()

    # Waiting.

    def are_stored(self, count: int) -> bool:
        """Whether ``stored`` would return at once after ``count`` calls of ``add`` and none of ``drop``.

        From any thread. A thread that need not wait saves two switches between threads, which cost more than the rest.
        """
        return self._safe == count

    def tell_thread(self, done: Done, count: int) -> None:
        """``when_stored`` after ``count`` calls of ``add`` and none of ``drop``, for the one thread that waits for this
        transaction. It is called in that thread, so the event loop is not woken for it. ``done`` may be called twice,
        on the loop and here.

        The loop counts an answer and then looks for a thread. The thread does it the other way round. So one of the
        two sees what the other one did.
        """
        self._listens = (count, done)
        self._tell_thread()

    def _tell_thread(self) -> None:
        waits = self._listens
        if waits is not None and (self._failed is not None or self._answered >= waits[0]):
            self._listens = None
            waits[1](None, self._failed or self._not_ready())

    async def stored(self) -> None:
        """Return when brokers have stored all half messages so far, and have rolled back the dropped ones.

        Raises the error of the first one that could not be sent or rolled back, or HalfNotStored when a broker did not
        confirm that it is on its disk.
        """
        await _awaited(self.when_stored)

    def when_stored(self, done: Done) -> None:
        """Call ``done`` when ``stored`` would return or raise."""
        self._wait(partial(self._tell_stored, done))

    def when_stored_or_late(self, done: Done, within_s: float) -> None:
        """The same, but ``done`` gets False when that takes longer than ``within_s`` from now."""
        told = _Once(done)
        self.when_stored(told.stored)
        if not told.told:
            assert self._loop is not None
            told.timer = self._loop.call_later(max(0.0, within_s), told.late)

    async def end(self, outcome: ListenerAnswer) -> Sequence[TransactionSendResult]:
        """``begin_to_end`` and ``ended``."""
        self.begin_to_end(outcome)
        return await self.ended()

    async def ended(self) -> Sequence[TransactionSendResult]:
        """Wait for the brokers' answers to ``begin_to_end``. A caller that is cancelled does not stop the ends.

        Raises TransactionConflict when a broker had decided otherwise before. An end that did not reach its broker
        is in the results (``decided`` is False), or is missing when the client was closed: the broker will ask.
        """
        results: Sequence[TransactionSendResult] = await _awaited(self.when_ended)
        return results

    def when_ended(self, done: Done) -> None:
        """Call ``done`` when ``ended`` would return or raise."""
        self._wait(partial(self._tell_ended, done))

    def end_then(self, done: Done, outcome: ListenerAnswer) -> None:
        """``begin_to_end`` and ``when_ended``."""
        self.begin_to_end(outcome)
        self.when_ended(done)

    def half(self, number: int) -> SentHalf:
        """The half message of this number, which a broker has stored."""
        begun = self._halves[number].begun
        assert isinstance(begun, SentHalf)
        return begun

    def end_of(self, number: int) -> Ended | None:
        """What its broker has answered to its end, once it has."""
        return self._halves[number].ended

    def _wait(self, told: Callable[[], bool]) -> None:
        if not told():
            self._waiting.append(told)

    def _step(self) -> None:
        if self._waiting:
            self._waiting = [told for told in self._waiting if not told()]

    def _tell_stored(self, done: Done) -> bool:
        if self._failed is None and self._unready:
            return False
        done(None, self._failed or self._not_ready())
        return True

    def _not_ready(self) -> BaseException | None:
        """Every step was answered: why the transaction cannot commit nevertheless."""
        for half in self._halves.values():
            if isinstance(half.begun, SentHalf) and half.begun.result.status is not SendStatus.SEND_OK:
                return HalfNotStored(half.begun.message.topic, half.begun.result.status.name)
        for half in self._dropped:
            if isinstance(half.ended, BaseException):
                return half.ended
            if half.ended is not None and not half.ended.decided:
                assert isinstance(half.begun, SentHalf)
                return half.ended.decision_error or HalfNotStored(
                    half.begun.message.topic, "its rollback is not confirmed"
                )
        return None

    def _tell_ended(self, done: Done) -> bool:
        if self._ending:
            return False
        ends = [half.ended for half in self._halves.values()]
        conflict = next((end for end in ends if isinstance(end, TransactionConflict)), None)
        done([end for end in ends if isinstance(end, TransactionSendResult)], conflict)
        return True

    # Ends.

    def begin_to_end(self, outcome: ListenerAnswer) -> None:
        """End every half message as ``outcome`` says, all at the same time. The first outcome counts."""
        if self._outcome is None:
            self._outcome = outcome
            if self._local is not None:
                self._local.ended(outcome)
            for half in self._halves.values():
                self._end(half, outcome)

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
        half.outcome = outcome
        if not half.dropped:
            self._ending += 1
        if half.begun is not None:
            self._send_end(half, half.begun, outcome)

    def _send_end(self, half: _Half, begun: Begun, outcome: ListenerAnswer) -> None:
        if isinstance(begun, BaseException):
            self._ended(half, begun)
            return
        in_task(self._tasks, "end of a half", self._sender.finish(begun, outcome), partial(self._ended, half))

    def _ended(self, half: _Half, ended: Ended) -> None:
        half.ended = ended
        if half.dropped:
            self._unready -= 1
        else:
            self._ending -= 1
        if (
            isinstance(ended, TransactionSendResult)
            and not ended.decided
            and not isinstance(ended.decision_error, Closed)
        ):
            # Its broker or the database was away. The broker does not know that the local transaction is over, and lets
            # the half wait for as long as one may take, which is a minute by default.
            assert isinstance(half.begun, SentHalf) and half.outcome is not None
            self._tasks.start("late end of a half", self._sender.finish_late(half.begun, half.outcome))
        self._step()


class _Once:
    """Who waits for halves, but not for ever."""

    __slots__ = ("_done", "timer", "told")

    def __init__(self, done: Done) -> None:
        self._done = done
        self.told = False
        self.timer: asyncio.TimerHandle | None = None

    def stored(self, _: Any, error: BaseException | None) -> None:
        self._tell(True, error)

    def late(self) -> None:
        self._tell(False, None)

    def _tell(self, stored: bool, error: BaseException | None) -> None:
        if self.told:
            return
        self.told = True
        if self.timer is not None:
            self.timer.cancel()
        self._done(stored, error)


async def _awaited(begin: Callable[[Done], None]) -> Any:
    """What ``begin`` gives to its callback."""
    waits: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    begin(partial(settle, waits))
    return await waits


def settle(waits: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """For a ``Done`` that a coroutine waits for."""
    if waits.done():
        return
    if error is None:
        waits.set_result(result)
    else:
        waits.set_exception(error)
