"""The blocking facade: same names and signatures, threads, interrupts, close, fork."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any

import pytest

import gantrymq
from gantrymq import aio
from gantrymq.errors import Closed, MessageIllegal, TimedOut, Unreachable, UsedAfterFork
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.codes import RequestCode
from tests.client.peer import ScriptedCluster, cluster
from tests.client.test_transaction_producer import Listener

SEND = RequestCode.SEND_MESSAGE_V2
COMMIT, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.UNKNOWN


@contextlib.contextmanager
def peers_in_a_thread(brokers: int = 1) -> Iterator[ScriptedCluster]:
    """A scripted cluster with a loop of its own, for tests that block."""
    ready: Future[tuple[ScriptedCluster, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        async with cluster(brokers) as peers:
            stop = asyncio.Event()
            ready.set_result((peers, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    peers, loop, stop = ready.result(10)
    peers.ask = loop.call_soon_threadsafe
    try:
        yield peers
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    pause, rounds = threading.Event(), int(seconds / 0.005)
    for _ in range(rounds):
        if condition():
            return
        pause.wait(0.005)
    raise AssertionError(f"did not happen within {seconds} s")


def interrupt_after(event: threading.Event) -> None:
    """Press Ctrl-C once something has happened."""

    def press() -> None:
        event.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()


@pytest.mark.parametrize(
    "name",
    [
        "Producer",
        "TransactionProducer",
        "PullConsumer",
        "LitePullConsumer",
        "PushConsumer",
        "SimpleConsumer",
        "LiteSimpleConsumer",
        "Admin",
    ],
)
def test_signatures_equal_the_async_ones(name: str) -> None:
    blocking, other = getattr(gantrymq, name), getattr(aio, name)
    steps = {"begin", "finish", "interrupted", "transact_in_caller", "give_back_last", "give_back", "change_topic"}
    steps |= {"drop", "halves", "check", "begin_now", "finish_late", "start_task", "count_outbox", "has_broker"}
    methods = {n for n, member in inspect.getmembers(other, inspect.isfunction) if not n.startswith("_")} - steps
    assert methods <= set(dir(blocking))
    for method in methods | {"__init__"}:
        ours, theirs = (inspect.signature(getattr(kind, method)) for kind in (blocking, other))
        assert ours.parameters == theirs.parameters, method
        if method != "__init__":
            assert ours.return_annotation == theirs.return_annotation, method


def test_every_public_name_exists_in_both_forms() -> None:
    assert set(gantrymq.__all__) - {"GantryError"} <= set(aio.__all__)
    for name in gantrymq.__all__:
        assert getattr(gantrymq, name) is not None
    with pytest.raises(AttributeError, match="no attribute"):
        gantrymq.Nothing  # noqa: B018


def test_send_pull_and_batch() -> None:
    queue = MessageQueue("T", "broker-a", 0)
    with (
        peers_in_a_thread() as peers,
        gantrymq.Producer("pg", name_servers=peers.address) as producer,
        gantrymq.PullConsumer("cg", name_servers=peers.address) as consumer,
    ):
        assert producer.send(Message("T", b"0"), queue).queue == queue
        producer.send_batch([Message("T", b"1"), Message("T", b"2")], queue)
        producer.send_oneway(Message("T", b"3"), queue)
        until(lambda: consumer.max_offset(queue) == 4)
        assert [message.body for message in consumer.pull(queue, 0).messages] == [b"0", b"1", b"2", b"3"]
        assert consumer.pull_raw(queue, 0, 10, 1000).next_offset == 4
        assert consumer.queues("T") == [MessageQueue("T", "broker-a", n) for n in range(4)]
        assert len(producer.queues("T")) == 4
        assert consumer.committed(queue) is None
        consumer.commit(queue, 3)
        assert consumer.committed(queue) == 3 and consumer.min_offset(queue) == 0
        assert producer.client_id and producer.group == "pg"


def test_push_consumer_delivers_in_threads() -> None:
    observed: list[bytes] = []
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        peers.topics["%RETRY%cg"] = 1
        consumer = gantrymq.PushConsumer(
            "cg", name_servers=peers.address, listener=lambda messages: observed.extend(m.body for m in messages)
        )
        with consumer.subscribe("T", "A || B"):
            assert len(consumer.assigned) == 5 and consumer.client_id
            for number in range(10):
                producer.send(Message("T", b"%d" % number, tags="A"))
            until(lambda: len(observed) == 10)


def test_send_async_gives_futures() -> None:
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        futures = [producer.send_async(Message("T", b"%d" % number)) for number in range(200)]
        wait_for(futures, timeout=20)
        assert len({future.result().message_id for future in futures}) == 200
        with pytest.raises(MessageIllegal):
            producer.send_async(Message("T", b"")).result(10)


def test_many_threads_share_one_producer() -> None:
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        ids: list[str] = []

        def work() -> None:
            ids.extend(producer.send(Message("T", b"x")).message_id for _ in range(20))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(set(ids)) == 160


def test_transactions_run_in_the_callers_thread() -> None:
    listener = Listener(COMMIT)
    with (
        peers_in_a_thread() as peers,
        gantrymq.TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
    ):
        result = producer.send_in_transaction(Message("T", b"x"), arg=3)
        assert result.decided and listener.threads == [threading.current_thread().name]
        assert peers.broker.ended[0].commit_or_rollback == 8


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_in_the_listener_tells_unknown_and_is_raised(interrupt: BaseException) -> None:
    listener = Listener(execute=interrupt, check=COMMIT)
    with (
        peers_in_a_thread() as peers,
        gantrymq.TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
    ):
        with pytest.raises(type(interrupt)):
            producer.send_in_transaction(Message("T", b"x"))
        until(lambda: peers.broker.ended_one_way)
        assert peers.broker.ended_one_way[0].commit_or_rollback == 0
        assert not peers.broker.ended


def test_ctrl_c_while_the_half_is_sent_leaves_nothing_open() -> None:
    listener = Listener()
    with (
        peers_in_a_thread() as peers,
        gantrymq.TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
    ):
        producer.send(Message("T", b"warm"))
        arrived = threading.Event()

        def store_but_say_nothing(session: Any, command: Any) -> None:
            peers.broker.send(session, command)
            arrived.set()

        peers.broker.next(SEND, store_but_say_nothing)
        interrupt_after(arrived)
        with pytest.raises(KeyboardInterrupt):
            producer.send_in_transaction(Message("T", b"x"))

        def decided() -> bool:
            peers.ask(lambda: peers.broker.check(0))  # UNKNOWN until the interrupt has reached the client's thread
            return bool(peers.broker.ended)

        until(decided)
        assert peers.broker.ended[0].commit_or_rollback == 12
        assert not listener.executed and not listener.checked


@pytest.mark.parametrize("others", [0, 1])
def test_a_local_transaction_that_outlasts_close_is_left_to_check_back(others: int) -> None:
    begun, release = threading.Event(), threading.Event()

    def execute() -> LocalTransactionState:
        begun.set()
        release.wait(20)
        return COMMIT

    listener = Listener(execute)
    with peers_in_a_thread() as peers, contextlib.ExitStack() as stack:
        for _ in range(others):  # keeps the client's thread alive
            stack.enter_context(gantrymq.Admin(peers.address))
        producer = gantrymq.TransactionProducer(
            "tpg", name_servers=peers.address, listener=listener, close_timeout_ms=50
        )
        producer.start()
        result: Future[Any] = Future()
        threading.Thread(target=lambda: result.set_result(producer.send_in_transaction(Message("T", b"x")))).start()
        assert begun.wait(10)
        producer.close()
        release.set()
        outcome = result.result(10)
        assert (outcome.state, outcome.decided) == (COMMIT, False) and isinstance(outcome.decision_error, Closed)


def test_a_program_that_forgets_to_close_ends_all_the_same() -> None:
    program = """
import sys, gantrymq
producer = gantrymq.Producer("pg", name_servers=sys.argv[1])
producer.start()
producer.send(gantrymq.Message("T", b"x"))
gantrymq.PushConsumer("cg", name_servers=sys.argv[1], listener=print).subscribe("T").start()
raise SystemExit(7)
"""
    with peers_in_a_thread() as peers:
        peers.topics["%RETRY%cg"] = 1
        command = [sys.executable, "-c", program, peers.address]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        assert (done.returncode, done.stderr) == (7, "")


def test_ctrl_c_while_waiting_is_raised_at_once_and_the_client_still_works() -> None:
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        producer.send(Message("T", b"warm"))
        arrived = threading.Event()
        peers.broker.next(SEND, lambda s, c: arrived.set())
        interrupt_after(arrived)
        with pytest.raises(KeyboardInterrupt):
            producer.send(Message("T", b"x"), timeout_ms=20_000)
        producer.send(Message("T", b"y"))


def test_close_in_another_thread_ends_a_waiting_call_with_closed() -> None:
    with peers_in_a_thread() as peers:
        producer = gantrymq.Producer("pg", name_servers=peers.address, close_timeout_ms=50)
        producer.start()
        producer.send(Message("T", b"warm"))
        arrived = threading.Event()
        peers.broker.next(SEND, lambda s, c: arrived.set())
        future = producer.send_async(Message("T", b"x"), timeout_ms=20_000)
        assert arrived.wait(10)
        producer.close()
        with pytest.raises(Closed):
            future.result(10)
        with pytest.raises(Closed, match="create a new one"):
            producer.send(Message("T", b"x"))
        with pytest.raises(Closed, match="create a new one"):
            producer.start()
        producer.close()


def test_calls_before_the_start_say_so() -> None:
    with pytest.raises(Closed, match="not started"):
        gantrymq.Producer("pg", name_servers="127.0.0.1:1").send(Message("T", b"x"))


def test_a_missing_name_server_is_one_sentence() -> None:
    with (
        gantrymq.PullConsumer(name_servers="127.0.0.1:1") as consumer,
        pytest.raises(Unreachable, match="gantry server"),
    ):
        consumer.queues("T")


def test_timeouts_reach_the_caller() -> None:
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        producer.send(Message("T", b"connects"))
        peers.broker.next(SEND, lambda s, c: None)
        with pytest.raises(TimedOut):
            producer.send(Message("T", b"x"), timeout_ms=100)


def test_a_blocking_call_on_the_clients_own_thread_is_refused() -> None:
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        caught: Future[BaseException | None] = Future()

        def callback(_: object) -> None:
            try:
                producer.send(Message("T", b"x"))
            except RuntimeError as error:
                caught.set_result(error)

        producer.send_async(Message("T", b"x")).add_done_callback(callback)
        assert "another thread" in str(caught.result(10))


def test_the_last_client_ends_the_thread() -> None:
    def portals() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "gantrymq-portal"]

    with peers_in_a_thread() as peers:
        with gantrymq.Producer("pg", name_servers=peers.address):
            with gantrymq.PullConsumer(name_servers=peers.address):
                assert len(portals()) == 1
            assert len(portals()) == 1
        # A thread that was started beside the one that took the loop finds nothing to do, perhaps only now.
        end = time.monotonic() + 10
        while portals() and time.monotonic() < end:
            time.sleep(0.01)
        assert not portals()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_must_make_its_own_client() -> None:
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        producer.send(Message("T", b"parent"))
        address = peers.address
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    producer.send(Message("T", b"x"))
                except UsedAfterFork:
                    producer.close()
                    with gantrymq.Producer("pg", name_servers=address) as own:
                        own.send(Message("T", b"child"))
                    code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        producer.send(Message("T", b"parent again"))
        bodies = {command.body for command in peers.broker.requests if command.code == SEND}
        assert bodies == {b"parent", b"child", b"parent again"}
