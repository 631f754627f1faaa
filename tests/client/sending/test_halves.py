"""The half messages of one local transaction: whatever happens, every one that a broker stored is ended once."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.results import SendStatus, TransactionSendResult
from gantrymq.client.sending.halves import Begun, Halves
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.errors import Closed, HalfNotStored, RequestRejected, TransactionConflict, Unreachable
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.tasks import TaskGroupOwner

COMMIT = ListenerAnswer(LocalTransactionState.COMMIT)
ROLLBACK = ListenerAnswer(LocalTransactionState.ROLLBACK)
GONE = Unreachable("127.0.0.1:1", "it is gone")


class Sender:
    """A simulated producer: a test says what becomes of each message, by its body, and when."""

    def __init__(self, now: bool) -> None:
        """``now``: without tasks."""
        self.now = now
        self.begins: dict[bytes, asyncio.Future[SendStatus]] = {}
        self.finishes: dict[bytes, asyncio.Future[bool]] = {}
        self.ended: list[tuple[bytes, LocalTransactionState]] = []
        self.ended_late: list[tuple[bytes, LocalTransactionState]] = []
        self.at_once = False

    async def begin(
        self, message: Message, transaction_id: str | None = None, longest: object = None, order_key: str | None = None
    ) -> SentHalf:
        return self._half(message, await self._begun(message))

    async def finish(self, half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        return result(half.message, SendStatus.SEND_OK, await self._finished(half, outcome))

    def begin_now(
        self, message: Message, longest: object, then: Callable[[Begun], None], order_key: str | None = None
    ) -> bool:
        if not self.now:
            return False
        waits = self._begun(message)
        waits.add_done_callback(lambda _: then(waits.exception() or self._half(message, waits.result())))
        return True

    def _begun(self, message: Message) -> asyncio.Future[SendStatus]:
        waits = self.begins[message.body] = asyncio.get_running_loop().create_future()
        if self.at_once:
            waits.set_result(SendStatus.SEND_OK)
        return waits

    def _half(self, message: Message, status: SendStatus) -> SentHalf:
        return SentHalf(message, message, result(message, status), 0)

    def _finished(self, half: SentHalf, outcome: ListenerAnswer) -> asyncio.Future[bool]:
        self.ended.append((half.message.body, outcome.state))
        waits = self.finishes[half.message.body] = asyncio.get_running_loop().create_future()
        if self.at_once:
            waits.set_result(True)
        return waits

    async def finish_late(self, half: SentHalf, outcome: ListenerAnswer) -> None:
        self.ended_late.append((half.message.body, outcome.state))


def result(message: Message, status: SendStatus, decided: bool = False) -> TransactionSendResult:
    name = message.body.decode()
    return TransactionSendResult(
        status=status, message_id=name, offset_message_id=name, queue=MessageQueue(message.topic, "b", 0),
        queue_offset=0, transaction_id=name, state=LocalTransactionState.UNKNOWN, decided=decided,
        decision_error=None if decided else GONE,
    )  # fmt: skip


def run(test: Callable[[Sender, Halves], Coroutine[Any, Any, None]], *ways: bool) -> Sender:
    """Run it with tasks (False) and without (True), unless told otherwise; the senders must have seen the same."""
    senders = [Sender(now) for now in ways or (False, True)]

    async def play(sender: Sender) -> None:
        tasks = TaskGroupOwner("test")
        await test(sender, Halves(sender, tasks))
        await tasks.stop()

    for sender in senders:
        asyncio.run(play(sender))
    first, *others = senders
    assert all(sender.ended == first.ended for sender in others)
    return first


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def message(name: str) -> Message:
    return Message("T", name)


def test_all_are_sent_at_once_and_ended_at_once() -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        for number in range(3):
            halves.add(number, message(str(number)))
        await turns()
        assert len(sender.begins) == 3, "none waits for another one"
        storing = asyncio.create_task(halves.stored())
        for waits in sender.begins.values():
            assert not storing.done()
            waits.set_result(SendStatus.SEND_OK)
            await turns()
        await storing
        ending = asyncio.create_task(halves.end(COMMIT))
        await turns()
        assert len(sender.finishes) == 3
        for waits in sender.finishes.values():
            assert not ending.done()
            waits.set_result(True)
            await turns()
        assert [one.decided for one in await ending] == [True] * 3

    run(test)


@pytest.mark.parametrize("last", [SendStatus.SEND_OK, SendStatus.FLUSH_DISK_TIMEOUT])
def test_who_need_not_wait_knows_it(last: SendStatus) -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        for number, name in enumerate("ab"):
            halves.add(number, message(name))
        for name, status in (("a", SendStatus.SEND_OK), ("b", last)):
            await turns()
            assert not halves.are_stored(2)
            sender.begins[name.encode()].set_result(status)
        await turns()
        assert halves.are_stored(2) is (last is SendStatus.SEND_OK)

    run(test)


@pytest.mark.parametrize("failed", [None, GONE])
def test_a_thread_is_told_of_the_last_answer_or_of_the_first_error(failed: Exception | None) -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        told: list[BaseException | None] = []
        halves.tell_thread(lambda _, error: told.append(error), 2)  # no message has arrived here yet
        assert not told
        for number, name in enumerate("ab"):
            halves.add(number, message(name))
        await turns()
        if failed is None:
            sender.begins[b"a"].set_result(SendStatus.SEND_OK)
            await turns()
            assert not told
            sender.begins[b"b"].set_result(SendStatus.SEND_OK)
        else:
            sender.begins[b"a"].set_exception(failed)
        await turns()
        assert told == [failed]
        halves.tell_thread(lambda _, error: told.append(error), 2)  # again, when it is known
        assert told == [failed, failed]
        if failed is not None:
            sender.begins[b"b"].set_result(SendStatus.SEND_OK)
        halves.begin_to_end(ROLLBACK)
        await turns()

    run(test)


def test_the_first_error_is_raised_and_the_others_are_rolled_back_as_they_arrive() -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        halves.add(0, message("a"))
        halves.add(1, message("b"))
        await turns()
        sender.begins[b"a"].set_exception(GONE)
        with pytest.raises(Unreachable):
            await halves.stored()
        ending = asyncio.create_task(halves.end(ROLLBACK))
        await turns()
        assert not sender.ended, "b is on its way"
        sender.begins[b"b"].set_result(SendStatus.SEND_OK)
        await turns()
        sender.finishes[b"b"].set_result(True)
        assert len(await ending) == 1

    assert run(test).ended == [(b"b", ROLLBACK.state)]


def test_a_half_that_is_not_safe_on_a_disk_stops_the_commit() -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        halves.add(0, message("a"))
        await turns()
        sender.begins[b"a"].set_result(SendStatus.FLUSH_DISK_TIMEOUT)
        with pytest.raises(HalfNotStored, match="FLUSH_DISK_TIMEOUT"):
            await halves.stored()

    run(test)


def test_a_dropped_message_must_be_rolled_back_before_the_commit_goes_on() -> None:
    """Its half carries the id of the transaction: a check-back after the commit would deliver it."""

    async def test(sender: Sender, halves: Halves) -> None:
        halves.add(0, message("kept"))
        halves.add(1, message("dropped"))
        halves.drop([1])
        await turns()
        for waits in sender.begins.values():
            waits.set_result(SendStatus.SEND_OK)
        storing = asyncio.create_task(halves.stored())
        await turns()
        assert not storing.done() and sender.ended == [(b"dropped", ROLLBACK.state)]
        sender.finishes[b"dropped"].set_result(True)
        await storing

    run(test)


@pytest.mark.parametrize("where", ["begin", "finish", "undecided"])
def test_a_dropped_message_that_may_still_be_open_stops_the_commit(where: str) -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        halves.add(0, message("dropped"))
        halves.drop([0])
        await turns()
        if where == "begin":
            sender.begins[b"dropped"].set_exception(GONE)
        else:
            sender.begins[b"dropped"].set_result(SendStatus.SEND_OK)
            await turns()
            waits = sender.finishes[b"dropped"]
            waits.set_result(False) if where == "undecided" else waits.set_exception(GONE)
        with pytest.raises(Unreachable):
            await halves.stored()

    run(test)


def test_who_gives_up_waiting_stops_nothing() -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        halves.add(0, message("a"))
        await turns()
        for work in (halves.stored(), halves.end(COMMIT)):
            waiting = asyncio.create_task(work)
            await turns()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        sender.begins[b"a"].set_result(SendStatus.SEND_OK)
        await turns()
        sender.finishes[b"a"].set_result(True)
        assert [one.decided for one in await halves.ended()] == [True]

    assert run(test).ended == [(b"a", COMMIT.state)]


def test_the_first_outcome_counts() -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        sender.at_once = True
        halves.add(0, message("a"))
        await halves.end(COMMIT)
        await halves.end(ROLLBACK)
        halves.add(1, message("late"))
        await turns()

    assert run(test).ended == [(b"a", COMMIT.state), (b"late", COMMIT.state)]


def test_a_conflict_is_raised_when_all_ends_have_arrived() -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        for number in range(2):
            halves.add(number, message(str(number)))
        await turns()
        for waits in sender.begins.values():
            waits.set_result(SendStatus.SEND_OK)
        ending = asyncio.create_task(halves.end(COMMIT))
        await turns()
        sender.finishes[b"0"].set_exception(TransactionConflict(1, "rolled back", "0"))
        await turns()
        assert not ending.done()
        sender.finishes[b"1"].set_exception(RequestRejected(1))
        with pytest.raises(TransactionConflict):
            await ending

    run(test)


def test_a_client_that_is_closed_answers_what_it_can() -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        halves.add(0, message("a"))
        halves.add(1, message("b"))
        await turns()
        sender.begins[b"a"].set_result(SendStatus.SEND_OK)
        storing, ending = asyncio.create_task(halves.stored()), asyncio.create_task(halves.end(COMMIT))
        await turns()
        await halves._tasks.stop()
        with pytest.raises(Closed):
            await storing
        assert list(await ending) == [], "nobody is cancelled who was not"

    run(test, False)


@pytest.mark.parametrize("from_thread", [False, True])
def test_what_is_abandoned_is_ended_from_any_thread(from_thread: bool) -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        sender.at_once = True
        halves.add(0, message("a"))
        await turns()
        if from_thread:
            thread = threading.Thread(target=halves.abandon, args=(ROLLBACK,))
            thread.start()
            await asyncio.to_thread(thread.join)
        else:
            halves.abandon(ROLLBACK)
        await turns()

    assert run(test).ended == [(b"a", ROLLBACK.state)]


def test_what_is_abandoned_before_its_first_message_arrives_is_ended_with_it() -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        sender.at_once = True
        halves.abandon(ROLLBACK)
        halves.add(0, message("a"))
        halves.add(1, message("b"))
        await turns()

    assert run(test).ended == [(b"a", ROLLBACK.state), (b"b", ROLLBACK.state)]


def test_abandoned_behind_the_end_of_its_loop_it_does_nothing() -> None:
    kept: list[Halves] = []

    async def test(sender: Sender, halves: Halves) -> None:
        sender.at_once = True
        kept.append(halves)
        halves.add(0, message("a"))
        await turns()

    run(test)
    for halves in kept:
        halves.abandon(ROLLBACK)
    gc.collect()


EVENTS = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "begin", "fail", "finish"]), st.integers(0, 4)), max_size=25
)


@given(EVENTS, st.sampled_from([COMMIT, ROLLBACK]), st.booleans())
def test_every_stored_half_is_ended_once_and_as_it_should(
    events: list[tuple[str, int]], outcome: ListenerAnswer, now: bool
) -> None:
    """In any order: messages are added and dropped, brokers answer or fail."""
    added: set[int] = set()
    dropped: set[int] = set()
    stored: set[bytes] = set()

    def open_of(waits: dict[bytes, asyncio.Future[Any]], number: int) -> asyncio.Future[Any] | None:
        found = waits.get(str(number).encode())
        return found if found is not None and not found.done() else None

    async def test(sender: Sender, halves: Halves) -> None:
        for event, number in events:
            if event == "add" and number not in added:
                added.add(number)
                halves.add(number, message(str(number)))
            elif event == "drop" and number in added - dropped:
                dropped.add(number)
                halves.drop([number])
            elif event in ("begin", "fail") and (waits := open_of(sender.begins, number)):
                if event == "begin":
                    stored.add(str(number).encode())
                waits.set_result(SendStatus.SEND_OK) if event == "begin" else waits.set_exception(GONE)
            elif event == "finish" and (waits := open_of(sender.finishes, number)):
                waits.set_result(True)
            await turns(3)
        halves.begin_to_end(outcome)
        for number in added:
            await turns()
            if waits := open_of(sender.begins, number):
                stored.add(str(number).encode())
                waits.set_result(SendStatus.SEND_OK)
            await turns()
            if waits := open_of(sender.finishes, number):
                waits.set_result(True)
        await halves.ended()

    sender = run(test, now)
    names = [name for name, _ in sender.ended]
    assert sorted(names) == sorted(stored), "each once, and no other"
    for name, state in sender.ended:
        assert state is (ROLLBACK if int(name) in dropped else outcome).state


@pytest.mark.parametrize(
    ("outcome", "decided", "late"),
    [
        (COMMIT, False, 1),
        (ROLLBACK, False, 1),
        (COMMIT, True, 0),
        (ListenerAnswer(LocalTransactionState.UNKNOWN), False, 1),
    ],
)
def test_an_end_that_is_not_decided_is_repeated_in_the_background(
    outcome: ListenerAnswer, decided: bool, late: int
) -> None:
    async def test(sender: Sender, halves: Halves) -> None:
        halves.add(0, message("a"))
        await turns()
        sender.begins[b"a"].set_result(SendStatus.SEND_OK)
        ending = asyncio.create_task(halves.end(outcome))
        await turns()
        sender.finishes[b"a"].set_result(decided)
        await ending
        await turns()

    assert run(test).ended_late == [(b"a", outcome.state)] * late
