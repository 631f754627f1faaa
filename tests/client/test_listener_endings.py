"""However a listener or a checker ends, its messages are settled and other work continues."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import gantrymq
from gantrymq.aio import LocalTransactionState, Message, MessageView, Producer, PushConsumer, TransactionProducer
from gantrymq.protocol.bodies.progress import ConsumedDirectly
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.tools import ConsumeDirectly
from tests.client.consuming.test_broker_questions import Asker
from tests.client.listener_endings import (
    CANCELS,
    ENDINGS,
    FAILURES,
    TOPICS,
    Endings,
    Odd,
    consumer_of,
    deliver_given_back,
    elsewhere,
    peers_with_retries,
    pool_of,
    send,
    settled,
)
from tests.client.peer import ScriptedCluster, cluster, run, until
from tests.client.test_sync import peers_in_a_thread

COMMIT, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.UNKNOWN
KINDS: dict[str, dict[str, Any]] = {
    "concurrent": {},
    "traced": {"trace": True},
    "orderly": {"orderly": True},
    "broadcasting": {"broadcasting": True},
}
BAD, GOOD = (b"bad0", b"bad1", b"bad2"), (b"good0", b"good1")


async def _consume(ending: str, kind: str, in_tasks: bool, path: Path) -> None:
    first, second = Endings(ending), Endings("returns None")
    hangs = ending == "hangs"
    bad = BAD[:1] if hangs else BAD
    bodies = {b"%b-%d" % (body, queue) for body in (*bad, *GOOD) for queue in range(2)}
    async with peers_with_retries() as peers:
        await send(peers, *bad, *GOOD)
        listener = first.in_a_task if in_tasks else first
        threads = 4 if hangs else 2  # two of them hang
        consumer = consumer_of(peers, listener, path, consume_threads=threads, **KINDS[kind])
        await consumer.start()
        failed = ending in FAILURES or ending == CANCELS
        if hangs:
            stuck = {b"bad0-0", b"bad0-1"}
            await until(lambda: first.got.keys() >= stuck, what="the listeners that hang")
            if kind != "orderly":
                await until(lambda: first.done.keys() == bodies - stuck, what="the others")
            await settled(consumer, 2)
        elif kind == "broadcasting" and failed:
            await until(lambda: first.got.keys() == bodies and len(first.done) == len(GOOD) * 2, what="all but the bad")
            await settled(consumer)
        else:
            await until(lambda: first.done.keys() == bodies, what="all messages")
            assert not failed or all(first.got[body] > 1 for body in bodies if body.startswith(b"bad"))
            await settled(consumer)
        async with asyncio.timeout(5):
            await consumer.close()
        async with consumer_of(peers, second, path, **KINDS[kind]):
            if kind != "broadcasting" or hangs:
                await until(lambda: first.done.keys() | second.done.keys() == bodies, what="all, by the two members")
        first.released.set()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_messages_of_a_listener_in_threads_are_settled(kind: str, ending: str, tmp_path: Path) -> None:
    elsewhere(lambda: _consume(ending, kind, False, tmp_path))


@pytest.mark.parametrize("ending", [*ENDINGS, CANCELS])
@pytest.mark.parametrize("kind", KINDS)
def test_messages_of_an_async_listener_are_settled(kind: str, ending: str, tmp_path: Path) -> None:
    elsewhere(lambda: _consume(ending, kind, True, tmp_path))


# Checks.


class Checker:
    """Commits nothing at once; its check ends as it is told for ``bad``, and says COMMIT else."""

    def __init__(self, ending: str) -> None:
        self.endings = Endings(ending)
        self.committed: list[bytes] = []

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return UNKNOWN

    def check_local_transaction(self, message: MessageView) -> Any:
        answer = self.endings([message])
        return COMMIT if answer is None and self.endings.done else answer


class AsyncChecker(Checker):
    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:  # type: ignore[override]
        return UNKNOWN

    async def check_local_transaction(self, message: MessageView) -> Any:
        answer = await self.endings.in_a_task([message])
        return COMMIT if answer is None and self.endings.done else answer


CHECKERS: dict[str, tuple[type[Checker], dict[str, Any]]] = {
    "threaded": (Checker, {}),
    "inline": (Checker, {"inline_listener": True}),
    "async": (AsyncChecker, {}),
}
CHECKED = [(form, ending) for form in CHECKERS for ending in ("returns None", *FAILURES, "hangs")]
CHECKED = [(form, ending) for form, ending in CHECKED if (form, ending) != ("inline", "hangs")] + [("async", CANCELS)]


@pytest.mark.parametrize(("form", "ending"), CHECKED)
def test_a_check_is_answered(form: str, ending: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        kind, settings = CHECKERS[form]
        listener = kind(ending)
        async with cluster() as peers:
            broker = peers.broker
            producer = TransactionProducer(
                "tg", name_servers=peers.address, listener=listener, check_threads=2, close_timeout_ms=100, **settings
            )
            async with producer:
                for body in (b"bad", b"good"):
                    await producer.send_in_transaction(Message("T", body))
                await until(lambda: len(broker.ended_one_way) == 2)
                broker.check(0)
                if ending == "hangs":
                    await until(lambda: listener.endings.got)
                elif ending == "returns None":
                    await until(lambda: len(broker.ended) == 1)
                else:
                    await until(lambda: len(broker.ended_one_way) == 3, what="UNKNOWN")
                    (remark,) = [one.remark for one in broker.requests if one.remark][-1:]
                    assert remark and ("raised" in remark or "must return" in remark)
                broker.check(1)
                await until(lambda: any(end.commit_or_rollback == 8 for end in broker.ended), what="the other one")
                if ending not in ("hangs", "returns None"):
                    broker.check(0)
                    await until(lambda: len(broker.ended) == 2, what="COMMIT when asked again")
                checks: Any = producer._checks
                await until(lambda: checks._waiting == (ending == "hangs"))
            listener.endings.released.set()

    elsewhere(test)


@pytest.mark.parametrize("form", ["threaded", "async"])
def test_a_check_that_hangs_keeps_two_threads_however_often_it_is_asked(form: str) -> None:
    async def test() -> None:
        kind, settings = CHECKERS[form]
        listener = kind("hangs always")
        async with cluster() as peers:
            broker = peers.broker
            producer = TransactionProducer(
                "tg", name_servers=peers.address, listener=listener, check_threads=3, close_timeout_ms=100, **settings
            )
            async with producer:
                for body in (b"bad", b"good"):
                    await producer.send_in_transaction(Message("T", body))
                await until(lambda: len(broker.ended_one_way) == 2)
                for _ in range(5):
                    broker.check(0)
                broker.check(1)
                await until(lambda: any(end.commit_or_rollback == 8 for end in broker.ended), what="the other one")
                await until(lambda: len(broker.ended_one_way) == 2 + 3)
                assert "still at work" in str([one.remark for one in broker.requests if one.remark][-1])
            listener.endings.released.set()

    elsewhere(test)


# Consume directly.


@pytest.mark.parametrize(
    ("in_tasks", "ending"),
    [(in_tasks, ending) for in_tasks in (False, True) for ending in ("returns None", *FAILURES, "hangs")],
)
def test_a_message_consumed_directly_is_answered(in_tasks: bool, ending: str, tmp_path: Path) -> None:
    async def test() -> None:
        endings = Endings(ending)
        async with peers_with_retries() as peers:
            await send(peers, b"bad")
            endings.got.clear()
            consumer = consumer_of(peers, endings.in_a_task if in_tasks else endings, tmp_path)
            async with consumer:
                record = peers.broker.queues["T", 0][0]
                endings.released.set()
                await until(lambda: pool_of(consumer) and len(endings.got) >= 2)
                if ending in FAILURES:  # behind the next line, what comes again would end badly once more
                    await until(lambda: len(endings.done) >= 2)
                endings.got.clear()
                endings.released.clear()
                asker = Asker(peers)
                header = ConsumeDirectly(consumer_group="cg", broker_name="broker-a")
                if ending == "hangs":
                    asker.tell(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, record)
                    await until(lambda: endings.got)
                else:
                    reported = ConsumedDirectly.decode(
                        await asker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, record)
                    )
                    expected = {"returns None": "CR_SUCCESS"}.get(
                        ending, "CR_LATER" if ending.startswith("returns") else "CR_THROW_EXCEPTION"
                    )
                    assert reported.consume_result == expected
                again = ConsumedDirectly.decode(await asker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, record))
                assert again.consume_result == "CR_SUCCESS"
            endings.released.set()

    elsewhere(test)


# A Ctrl-C, and tasks that are cancelled by somebody else.


def test_a_ctrl_c_in_an_async_listener_of_the_users_own_loop_is_raised_on(tmp_path: Path) -> None:
    endings, after = Endings("raises KeyboardInterrupt"), Endings("returns None")
    bodies = {b"bad-0", b"bad-1", b"good-0", b"good-1"}

    consumers: list[PushConsumer] = []

    async def interrupted(peers: ScriptedCluster) -> None:
        consumers.append(consumer_of(peers, endings.in_a_task, tmp_path))
        async with consumers[0]:
            await asyncio.Event().wait()

    async def successor(peers: ScriptedCluster) -> None:
        async with consumer_of(peers, after, tmp_path):
            await until(lambda: endings.done.keys() | after.done.keys() == bodies)

    with peers_in_a_thread() as peers:
        peers.topics.update(TOPICS)
        deliver_given_back(peers)
        asyncio.run(send(peers, b"bad", b"good"))
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(interrupted(peers))
        assert not consumers[0]._endpoint.remoting.connected_addresses(), "it was not closed"
        peers.broker.members.clear()  # a real broker forgets who is no longer connected
        asyncio.run(successor(peers))


def test_a_ctrl_c_in_an_async_checker_of_the_users_own_loop_is_answered_and_raised_on() -> None:
    listener = AsyncChecker("raises KeyboardInterrupt")

    async def interrupted(peers: ScriptedCluster) -> None:
        async with TransactionProducer("tg", name_servers=peers.address, listener=listener) as producer:
            await producer.send_in_transaction(Message("T", b"bad"))
            await until(lambda: len(peers.broker.ended_one_way) == 1)
            peers.ask(lambda: peers.broker.check(0))
            await asyncio.Event().wait()

    with peers_in_a_thread() as peers:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(interrupted(peers))
        assert len(peers.broker.ended_one_way) == 2
        assert "KeyboardInterrupt" in str([one.remark for one in peers.broker.requests if one.remark])


def test_tasks_cancelled_before_their_first_step_leave_the_pool_whole(tmp_path: Path) -> None:
    async def test() -> None:
        inbox = Endings("returns None")
        bodies = {b"good0-0", b"good0-1"}
        async with peers_with_retries() as peers, consumer_of(peers, inbox.in_a_task, tmp_path) as consumer:
            create = asyncio.get_running_loop().create_task
            hit: list[object] = []

            def cancelled(work: Any, **more: Any) -> asyncio.Task[Any]:
                task = create(work, **more)
                if getattr(work, "__name__", "") == "_consume" and len(hit) < 2:
                    hit.append(task.cancel())
                return task

            asyncio.get_running_loop().create_task = cancelled  # type: ignore[method-assign, assignment]
            await send(peers, GOOD[0])
            await until(lambda: inbox.done.keys() == bodies)
            assert len(hit) == 2
            await settled(consumer)

    run(test)


# Closing.


def test_an_async_listener_can_close_its_consumer(tmp_path: Path) -> None:
    async def test() -> None:
        closed: list[bytes] = []

        async def listener(messages: list[MessageView]) -> None:
            await consumer.close()
            closed.append(messages[0].body)

        async with peers_with_retries() as peers:
            consumer = consumer_of(peers, listener, tmp_path, close_timeout_ms=60_000)
            await consumer.start()
            await send(peers, GOOD[0])
            await until(lambda: closed, what="the end of a close from inside")
            assert not peers.broker.members and not consumer._endpoint.remoting.connected_addresses()
            after = Endings("returns None")
            async with consumer_of(peers, after, tmp_path):
                await until(lambda: len(after.done) == 2)

    run(test)


def test_a_thread_of_a_blocking_consumer_can_close_it(tmp_path: Path) -> None:
    closed = threading.Event()

    def listener(messages: list[MessageView]) -> None:
        consumer.close()
        closed.set()

    def work(address: str) -> None:
        nonlocal consumer
        consumer = gantrymq.PushConsumer("cg", name_servers=address, listener=listener, close_timeout_ms=50)
        consumer.subscribe("T").start()

    consumer: gantrymq.PushConsumer

    async def test() -> None:
        async with peers_with_retries() as peers:
            await asyncio.to_thread(work, peers.address)
            async with Producer("pg", name_servers=peers.address) as producer:
                await producer.send(Message("T", b"good"))
            await until(closed.is_set, what="the end of a close from inside")
            assert not peers.broker.members

    run(test)


def test_two_closes_at_once_end_together(tmp_path: Path) -> None:
    async def test() -> None:
        stuck = Endings("hangs")
        async with peers_with_retries() as peers:
            consumer = consumer_of(peers, stuck, tmp_path, close_timeout_ms=200)
            await consumer.start()
            await send(peers, b"bad")
            await until(lambda: stuck.got)
            both = [asyncio.create_task(consumer.close()) for _ in range(2)]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            assert not consumer._endpoint.remoting.connected_addresses(), "one returned before the end"
            await asyncio.gather(*both)
            stuck.released.set()

    run(test)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_cancelled_close_is_completed(orderly: bool, tmp_path: Path) -> None:
    async def test() -> None:
        stuck = Endings("hangs")
        async with peers_with_retries() as peers:
            consumer = consumer_of(peers, stuck, tmp_path, close_timeout_ms=100, orderly=orderly)
            await consumer.start()
            await send(peers, b"bad")
            await until(lambda: stuck.got)
            closing = asyncio.create_task(consumer.close())
            await asyncio.sleep(0.01)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await consumer.close()
            assert not peers.broker.members and not consumer._endpoint.remoting.connected_addresses()
            assert (RequestCode.UNLOCK_BATCH_MQ in peers.broker.codes()) is orderly
            stuck.released.set()

    run(test)


def test_a_start_that_is_cancelled_leaves_nothing_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with peers_with_retries() as peers:
            peers.broker.next(RequestCode.GET_CONSUMER_LIST_BY_GROUP, lambda session, command: None)
            consumer = consumer_of(peers, Endings("returns None"), tmp_path)
            entering = asyncio.create_task(consumer.__aenter__())
            await until(lambda: RequestCode.GET_CONSUMER_LIST_BY_GROUP in peers.broker.codes())
            entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await entering
            assert not consumer._endpoint.remoting.connected_addresses()
            threads = pool_of(consumer)._threads
            await until(lambda: not any(thread.is_alive() for thread in threads))

    run(test)


# The blocking clients share a loop.


@pytest.mark.parametrize("ending", ["raises SystemExit", "raises KeyboardInterrupt", "raises CancelledError"])
def test_an_async_listener_of_a_blocking_consumer_does_not_end_the_loop(ending: str, tmp_path: Path) -> None:
    async def test() -> None:
        endings = Endings(ending)
        async with peers_with_retries() as peers:
            await send(peers, b"bad")

            def work() -> None:
                with gantrymq.PushConsumer(
                    "cg", name_servers=peers.address, listener=endings.in_a_task,
                    from_where=gantrymq.ConsumeFromWhere.FIRST_OFFSET,
                ).subscribe("T"), gantrymq.Producer("pg", name_servers=peers.address) as producer:  # fmt: skip
                    while not endings.done.keys() >= {b"bad-0", b"bad-1"}:
                        producer.send(Message("T", b"good"))

            await asyncio.to_thread(work)

    run(test)


# Local transactions.


@pytest.mark.parametrize("ending", [ending for ending in FAILURES if ending.startswith("raises")])
def test_a_local_transaction_in_a_thread_cannot_end_the_loop(ending: str) -> None:
    class Local(Checker):
        def execute_local_transaction(self, message: Message, arg: Any) -> Any:
            return FAILURES[ending]()

    async def test() -> None:
        async with cluster() as peers:
            producer = TransactionProducer("tg", name_servers=peers.address, listener=Local(ending))
            async with producer:
                try:
                    error = (await producer.send_in_transaction(Message("T", b"bad"))).listener_error
                except (SystemExit, KeyboardInterrupt) as raised:  # to us alone
                    error = raised
                await until(lambda: len(peers.broker.ended_one_way) == 1)
                assert producer._delivery.in_flight == 0
                transactions = producer._memory._transactions.values()
                assert not any(transaction.running for transaction in transactions)
                expected = {"raises CancelledError": asyncio.CancelledError, "raises a BaseException": Odd}
                assert isinstance(error, expected.get(ending, BaseException))

    run(test)
