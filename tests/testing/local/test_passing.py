"""Virtual time: what is due happens in order, everything that follows is done before ``advance`` returns."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gantrymq import (
    LitePullConsumer,
    LocalTransactionState,
    Message,
    MessageView,
    Producer,
    PushConsumer,
    TransactionProducer,
    aio,
)
from gantrymq.errors import ConfigError, TimedOut
from gantrymq.testing import LocalCluster, NotAtRest

from .test_cluster import ANYWHERE, COMMIT, UNKNOWN, Answers


class Noted:
    """A listener that notes what it got, and when; and fails so many times before."""

    def __init__(self, cluster: LocalCluster, fails: int = 0) -> None:
        self.cluster, self.fails = cluster, fails
        self.got: list[bytes] = []
        self.times: list[float] = []

    def __call__(self, found: list[MessageView]) -> None:
        self.times.append(self.cluster.time())
        if len(self.times) <= self.fails:
            raise ConnectionError("not now")
        self.got += [view.body for view in found]


def test_time_stands_still_unless_it_is_moved(virtual: LocalCluster) -> None:
    before = virtual.time()
    virtual.send(Message("orders", b"x"))
    virtual.settle()
    assert virtual.time() == before
    virtual.advance(90)
    assert virtual.time() == before + 90


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        (Message("orders", b"x", delay_level=3), 10),
        (Message("orders", b"x", delay_level=5), 60),
        (Message("orders", b"x", delay_ms=90_000), 90),
    ],
    ids=["level 3", "level 5", "timer"],
)
def test_delayed_messages_come_when_their_time_is_over(virtual: LocalCluster, message: Message, seconds: float) -> None:
    virtual.create_topic("orders")
    listener = Noted(virtual)
    with PushConsumer("c", name_servers=ANYWHERE, listener=listener).subscribe("orders"):
        virtual.send(message)
        virtual.advance(seconds - 2)
        assert listener.got == []
        virtual.advance(4)  # a timer message may be a second late
        assert listener.got == [b"x"]


def test_what_failed_comes_again_after_ten_and_thirty_seconds(virtual: LocalCluster) -> None:
    virtual.create_topic("orders")
    listener = Noted(virtual, fails=2)
    with PushConsumer("c", name_servers=ANYWHERE, listener=listener).subscribe("orders"):
        virtual.send(Message("orders", b"x"))
        virtual.advance(45)
    assert listener.got == [b"x"]
    assert [round(later - earlier) for earlier, later in zip(listener.times, listener.times[1:], strict=False)] == [
        10,
        30,
    ]


def test_what_fails_too_often_is_a_dead_letter(virtual: LocalCluster) -> None:
    virtual.create_topic("orders")
    consumer = PushConsumer("c", name_servers=ANYWHERE, listener=Noted(virtual, fails=9), max_reconsume_times=2)
    with consumer.subscribe("orders"):
        virtual.send(Message("orders", b"x"))
        virtual.advance(120)
    assert [view.body for view in virtual.dead_letters("c")] == [b"x"]


def test_check_backs_come_at_their_time(virtual: LocalCluster) -> None:
    listener = Answers(UNKNOWN)
    with TransactionProducer("p", name_servers=ANYWHERE, listener=listener) as producer:
        producer.send_in_transaction(Message("orders", b"x"))
        virtual.advance(5.9)
        assert listener.checks == 0
        virtual.advance(0.1)  # transactionTimeOut
        assert listener.checks == 1
        assert [half.checks for half in virtual.open_transactions()] == [1]
        virtual.advance(30)  # transactionCheckInterval
        assert listener.checks == 2
        listener.checked = COMMIT
        virtual.advance(30)
        assert virtual.open_transactions() == [] and len(virtual.messages("orders")) == 1


def test_time_may_pass_inside_of_a_local_transaction(virtual: LocalCluster) -> None:
    class Slow(Answers):
        def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
            virtual.advance(40)
            return COMMIT

    listener = Slow(COMMIT)
    with TransactionProducer("p", name_servers=ANYWHERE, listener=listener) as producer:
        assert producer.send_in_transaction(Message("orders", b"x")).decided
    assert listener.checks == 0, "the client answers itself while the transaction runs"


def test_advance_waits_for_listeners_that_take_their_time(virtual: LocalCluster) -> None:
    virtual.create_topic("orders")
    begun, may_end = threading.Event(), threading.Event()
    got: list[bytes] = []

    def slow(found: list[MessageView]) -> None:
        begun.set()
        may_end.wait(60)
        got.extend(view.body for view in found)

    with PushConsumer("c", name_servers=ANYWHERE, listener=slow).subscribe("orders"), ThreadPoolExecutor(1) as pool:
        virtual.send(Message("orders", b"x", delay_level=3))
        advanced = pool.submit(virtual.advance, 10)
        assert begun.wait(60)
        assert not advanced.done(), "the listener is at work"
        may_end.set()
        advanced.result(60)
        assert got == [b"x"]


def test_a_listener_that_waits_for_a_client_does_not_hold_up_time(virtual: LocalCluster) -> None:
    """It asks a service that is answered by nobody: only the passing of time ends its call."""
    virtual.create_topic("orders")
    errors: list[str] = []
    with Producer("p", name_servers=ANYWHERE) as producer:

        def asks(found: list[MessageView]) -> None:
            with pytest.raises(TimedOut) as caught:
                producer.request(Message("questions", b"?"), timeout_ms=20_000)
            errors.append(str(caught.value))

        with PushConsumer("c", name_servers=ANYWHERE, listener=asks).subscribe("orders"):
            virtual.send(Message("orders", b"x"))
            virtual.settle()
            assert errors == []
            virtual.advance(20)
            assert len(errors) == 1


def test_time_passes_while_the_test_waits_for_a_client(virtual: LocalCluster) -> None:
    virtual.create_topic("orders")
    before = virtual.time()
    with LitePullConsumer("c", name_servers=ANYWHERE).subscribe("orders") as consumer:
        assert consumer.poll(timeout_ms=60_000) == []
    assert virtual.time() >= before + 60


def test_the_same_for_asyncio(virtual: LocalCluster) -> None:
    async def main() -> None:
        async with (
            aio.LitePullConsumer("c", name_servers=ANYWHERE).subscribe("orders") as consumer,
            aio.LitePullConsumer("d", name_servers=ANYWHERE).subscribe("orders") as other,
        ):
            assert await consumer.poll(60_000) == []
            assert await asyncio.gather(consumer.poll(30_000), other.poll(60_000)) == [[], []]
            assert await asyncio.create_task(consumer.poll(60_000)) == []

    virtual.create_topic("orders")
    before = virtual.time()
    asyncio.run(main())
    assert virtual.time() >= before + 3 * 60


def test_asyncio_listeners_and_check_backs(virtual: LocalCluster) -> None:
    class Checked:
        checks = 0

        async def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
            return UNKNOWN

        async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
            await asyncio.sleep(0.01)  # a database that takes its time, real time
            self.checks += 1
            return COMMIT

    async def main() -> None:
        got: list[bytes] = []

        async def consume(found: list[MessageView]) -> None:
            await asyncio.sleep(0.01)
            got.extend(view.body for view in found)

        listener = Checked()
        async with (
            aio.TransactionProducer("p", name_servers=ANYWHERE, listener=listener) as producer,
            aio.PushConsumer("c", name_servers=ANYWHERE, listener=consume).subscribe("orders"),
        ):
            await producer.send_in_transaction(Message("orders", b"x"))
            await virtual.advance_async(5)
            assert (listener.checks, got) == (0, [])
            await virtual.advance_async(1)
            assert (listener.checks, got) == (1, [b"x"])

    virtual.create_topic("orders")
    asyncio.run(main())


def test_wait_until_moves_time_no_further_than_needed(virtual: LocalCluster) -> None:
    virtual.create_topic("orders")
    before = virtual.time()
    virtual.send(Message("orders", b"x", delay_level=3))
    virtual.wait_until(lambda: virtual.messages("orders"), seconds=600)
    assert before + 10 <= virtual.time() < before + 12


def test_wait_until_gives_up(cluster: LocalCluster) -> None:
    with pytest.raises(TimeoutError, match=r"<lambda> did not become true within 0.05 s"):
        cluster.wait_until(lambda: False, seconds=0.05)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await cluster.wait_until_async(lambda: False, seconds=0.05)

    asyncio.run(main())


def test_advance_needs_virtual_time() -> None:
    with LocalCluster() as cluster, pytest.raises(ConfigError, match=r"@pytest.mark.gantry\(virtual_time=True\)"):
        cluster.advance(1)


def test_time_does_not_go_back(virtual: LocalCluster) -> None:
    with pytest.raises(ConfigError, match="does not go back"):
        virtual.advance(-1)


def test_a_blocking_wait_on_an_event_loop_says_what_to_write(virtual: LocalCluster) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"await gantry.advance_async"):
            virtual.advance(1)
        with pytest.raises(RuntimeError, match=r"await gantry.settle_async"):
            virtual.settle()

    asyncio.run(main())


def test_a_listener_that_hangs_is_named() -> None:
    may_end = threading.Event()

    def hangs(found: list[MessageView]) -> None:
        may_end.wait(60)

    with (
        LocalCluster(virtual_time=True, patience=0.2) as cluster,
        PushConsumer("c", name_servers=ANYWHERE, listener=hangs, close_timeout_ms=10).subscribe("orders"),
    ):
        cluster.create_topic("orders")
        cluster.send(Message("orders", b"x"))
        with pytest.raises(NotAtRest, match=r"a listener is still at .*test_passing.py:\d+ \(thread gantrymq-consume"):
            cluster.advance(60)
        may_end.set()
        cluster.advance(60)


def test_closing_a_consumer_whose_listener_hangs_ends() -> None:
    may_end = threading.Event()
    with (
        LocalCluster(virtual_time=True, patience=0.2) as cluster,
        PushConsumer("c", name_servers=ANYWHERE, listener=lambda found: may_end.wait(60)).subscribe("orders"),
    ):
        cluster.create_topic("orders")
        cluster.send(Message("orders", b"x"))
        cluster.wait_until(lambda: True)
    may_end.set()


def test_an_asyncio_listener_that_hangs_is_named() -> None:
    async def main(cluster: LocalCluster) -> None:
        hangs = asyncio.Event()

        async def consume(found: list[MessageView]) -> None:
            await hangs.wait()

        async with aio.PushConsumer("c", name_servers=ANYWHERE, listener=consume).subscribe("orders"):
            cluster.send(Message("orders", b"x"))
            with pytest.raises(NotAtRest, match=r"an async listener is still at .*test_passing.py:\d+"):
                await cluster.advance_async(60)
            hangs.set()
            await cluster.advance_async(60)

    with LocalCluster(virtual_time=True, patience=0.2) as cluster:
        cluster.create_topic("orders")
        asyncio.run(main(cluster))


def test_what_is_due_at_different_times_happens_in_order(virtual: LocalCluster) -> None:
    virtual.create_topic("orders", queues=1)
    listener = Noted(virtual)
    with PushConsumer("c", name_servers=ANYWHERE, listener=listener).subscribe("orders"):
        for level in (5, 4, 3, 2, 1):
            virtual.send(Message("orders", b"%d" % level, delay_level=level))
        virtual.advance(70)
    assert listener.got == [b"1", b"2", b"3", b"4", b"5"]


def test_the_same_test_gives_the_same_times_each_time() -> None:
    runs = []
    for _ in range(5):
        with LocalCluster(virtual_time=True) as cluster:
            cluster.create_topic("orders", queues=1)
            listener = Noted(cluster, fails=3)
            begun = cluster.time()
            with PushConsumer("c", name_servers=ANYWHERE, listener=listener).subscribe("orders"):
                cluster.send(Message("orders", b"x"))
                cluster.advance(300)
            runs.append([round(at - begun, 3) for at in listener.times])
    assert runs == [runs[0]] * 5
