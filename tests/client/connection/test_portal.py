"""The thread of the blocking clients: errors that are raised in it, calls on it, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import Any

import pytest

import gantrymq
from gantrymq.client.connection import portal, portals
from gantrymq.message.message import Message
from gantrymq.protocol.codes import RequestCode
from tests.client.test_sync import peers_in_a_thread, until

SEND = RequestCode.SEND_MESSAGE_V2


@pytest.fixture(params=["uvloop", "asyncio"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "asyncio":
        monkeypatch.setattr(portal, "_new_loop", asyncio.new_event_loop)


def raising(error: BaseException) -> Any:
    async def work() -> None:
        raise error

    return work


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
def test_what_is_raised_on_the_loop_ends_the_call_and_not_the_loop(error: BaseException) -> None:
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        door = producer._open_portal()
        with pytest.raises((type(error), gantrymq.GantryError)):
            door.call(raising(error))
        door.post(raise_now, error)
        door.submit(raising(error))
        for _ in range(3):
            producer.send(Message("T", b"x"))


def raise_now(error: BaseException) -> None:
    raise error


@pytest.mark.usefixtures("loops")
def test_a_callback_that_exits_ends_nothing() -> None:
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        for _ in range(3):
            sent = producer.send_async(Message("T", b"x"))
            with contextlib.suppress(SystemExit):  # of a future that is done already: it calls in this thread
                sent.add_done_callback(lambda future: sys.exit(1))
        until(lambda: sum(command.code == SEND for command in peers.broker.requests) == 3)
        producer.send(Message("T", b"y"))


def test_close_in_a_callback_is_refused_and_the_client_stays_open() -> None:
    with peers_in_a_thread() as peers:
        producer = gantrymq.Producer("pg", name_servers=peers.address)
        producer.start()
        caught: Future[BaseException] = Future()

        def callback(_: object) -> None:
            try:
                producer.close()
            except RuntimeError as error:
                caught.set_result(error)

        producer.send_async(Message("T", b"x")).add_done_callback(callback)
        assert "another thread" in str(caught.result(10))
        producer.send(Message("T", b"y"))
        producer.close()
        assert not producer._client._endpoint.remoting.connected_addresses()


def test_an_object_that_is_changed_behind_send_async_was_sent_as_it_was() -> None:
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        message = Message("T", b"0", keys="k0")
        futures = []
        for number in range(50):
            message.body, message.properties["KEYS"] = b"%d" % number, f"k{number}"
            futures.append(producer.send_async(message))
        assert len({future.result(10).message_id for future in futures}) == 50
        assert {command.body for command in peers.broker.requests if command.code == SEND} == {
            b"%d" % number for number in range(50)
        }


def test_calls_of_a_portal_that_has_ended_are_refused() -> None:
    door = portals.acquire(user := object(), no_drop)
    with pytest.raises(TypeError, match="argument"):
        door.call(no_drop, 1)
    door.post(door.leave, user)
    until(lambda: door._ended)
    with pytest.raises(gantrymq.GantryError, match="create a new one"):
        door.call(no_drop)
    assert door.submit(no_drop).exception(10) is not None
    other = portals.acquire(user, no_drop)
    assert other is not door and other.call(no_drop) is None  # type: ignore[func-returns-value]
    other.post(other.leave, user)


async def no_drop() -> None:
    pass


@pytest.mark.usefixtures("loops")
def test_a_question_is_answered_at_once_or_later_and_once() -> None:
    door = portals.acquire(user := object(), no_drop)

    def later(done: Any, result: Any, error: BaseException | None) -> None:
        asyncio.get_running_loop().call_later(0.01, done, result, error)

    assert door.ask(lambda done: done(1, None))() == 1
    assert door.ask(later, 2, None)() == 2
    with pytest.raises(ZeroDivisionError):
        door.ask(later, None, ZeroDivisionError())()
    with pytest.raises(ZeroDivisionError):
        door.ask(lambda done: 1 / 0)()
    answers = [door.ask(later, number, None) for number in range(3)]
    assert [answer() for answer in answers] == [0, 1, 2]
    twice: list[Any] = []
    assert door.ask(lambda done: twice.append(done) or done(3, None))() == 3  # type: ignore[func-returns-value]
    door.post(twice[0], 4, None)
    assert door.call(value, 5) == 5 and not door._calls
    with pytest.raises(RuntimeError, match="another thread"):
        door.call(asking, door)
    assert door.listen(lambda done: done(6, None))() == 6
    listening: list[Any] = []
    heard = door.listen(listening.append)
    for _ in range(2):
        door.post(listening[0], 7, None)
    assert heard() == 7 and not door._calls
    with pytest.raises(ZeroDivisionError):
        door.listen(lambda done: 1 / 0)
    never, nor_this = door.ask(lambda done: None), door.listen(lambda done: None)
    door.post(door.leave, user)
    for unanswered in (never, nor_this, door.listen(lambda done: None)):
        with pytest.raises(gantrymq.GantryError, match="create a new one"):
            unanswered()
    with pytest.raises(gantrymq.GantryError, match="create a new one"):
        door.ask(lambda done: done(1, None))()


async def value(of: int) -> int:
    return of


async def asking(door: portal.Portal) -> object:
    return door.ask(lambda done: done(1, None))()


PROGRAM = """
import sys, gantrymq
producer = gantrymq.Producer("pg", name_servers=sys.argv[1])
producer.start()
producer.send(gantrymq.Message("T", b"x"))
"""


def test_a_client_that_was_not_closed_is_named_and_its_connections_are_closed() -> None:
    """uvloop waits for seconds at the end when it may not warn of an open connection."""
    with peers_in_a_thread() as peers:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-W", "error", "-c", PROGRAM, peers.address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 0 and "a Producer was not closed" in done.stderr
        assert "unclosed resource" not in done.stderr


async def nothing() -> None:
    """Nobody has connections."""


def test_a_portal_that_is_brought_takes_the_place_of_another_for_a_while() -> None:
    with peers_in_a_thread() as peers, gantrymq.Producer("before", name_servers=peers.address) as before:
        user = object()
        brought = portals.bring(asyncio.new_event_loop(), user, nothing)
        with gantrymq.Producer("during", name_servers=peers.address) as during:
            assert during._open_portal() is brought is not before._open_portal()
            assert len(brought.users) == 2
            assert before.send(Message("T", b"x")) and during.send(Message("T", b"x"))
        assert brought.users == [user], "it goes on without clients"
        portals.take_away(brought)
        with gantrymq.Producer("after", name_servers=peers.address) as after:
            assert after._open_portal() is before._open_portal()
            assert before.send(Message("T", b"x"))


def test_who_waits_for_a_call_is_known_and_who_runs_a_part_of_it_does_not_wait() -> None:
    user = object()
    brought = portals.bring(asyncio.new_event_loop(), user, nothing)
    observed: list[int] = []

    def waiting() -> int:
        return brought.calls_of(lambda number: number == threading.get_ident())

    async def work(in_caller: Any) -> None:
        number = threading.main_thread().ident
        observed.append(brought.calls_of(lambda waits: waits == number))
        observed.append(await in_caller(waiting))
        observed.append(brought.calls_of(lambda waits: waits == number))

    try:
        brought.converse(work)
    finally:
        portals.take_away(brought)
    assert observed == [1, 0, 1]
