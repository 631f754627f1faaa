"""A local cluster: unchanged clients reach it, it is empty, alone, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from gantrymq import LocalTransactionState, Message, MessageView, Producer, PushConsumer, TransactionProducer, aio
from gantrymq.client.connection.outside import Outside, default_outside
from gantrymq.errors import Closed, ConfigError, Unreachable, UsedAfterFork
from gantrymq.runtime.network import TcpNetwork
from gantrymq.testing import LocalCluster, UnclosedClientWarning

ANYWHERE = "namesrv.example.com:9876"
COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN


class Answers:
    """A listener that says what it was made with."""

    def __init__(self, local: LocalTransactionState, checked: LocalTransactionState = UNKNOWN) -> None:
        self.local, self.checked = local, checked
        self.checks = 0

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return self.local

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        self.checks += 1
        return self.checked


def test_blocking_clients_send_and_consume(cluster: LocalCluster) -> None:
    got: list[bytes] = []
    consumer = PushConsumer("c", name_servers=ANYWHERE, listener=lambda found: got.extend(m.body for m in found))
    cluster.create_topic("orders")
    with Producer("p", name_servers=ANYWHERE) as producer, consumer.subscribe("orders"):
        producer.send(Message("orders", b"one"))
        assert producer.send_async(Message("orders", b"two")).result().queue.topic == "orders"
        cluster.wait_until(lambda: sorted(got) == [b"one", b"two"], seconds=60)
    assert sorted(view.body for view in cluster.messages("orders")) == [b"one", b"two"]


def test_asyncio_clients_send_and_consume(cluster: LocalCluster) -> None:
    async def main() -> None:
        got: list[bytes] = []

        async def consume(found: list[MessageView]) -> None:
            got.extend(view.body for view in found)

        consumer = aio.PushConsumer("c", name_servers=ANYWHERE, listener=consume).subscribe("orders")
        async with aio.Producer("p", name_servers=ANYWHERE) as producer, consumer:
            await producer.send(Message("orders", b"one"))
            await cluster.wait_until_async(lambda: got == [b"one"], seconds=60)

    cluster.create_topic("orders")
    asyncio.run(main())
    assert [view.body for view in cluster.messages("orders")] == [b"one"]


def test_both_kinds_of_clients_meet_in_one_test(cluster: LocalCluster) -> None:
    async def main() -> None:
        async with aio.LitePullConsumer("c", name_servers=ANYWHERE).subscribe("orders") as consumer:
            with Producer("p", name_servers=ANYWHERE) as producer:
                producer.send(Message("orders", b"from a blocking client"))
            assert [view.body for view in await consumer.poll(30_000)] == [b"from a blocking client"]

    cluster.create_topic("orders")
    asyncio.run(main())


def test_transactions_appear_when_they_commit(cluster: LocalCluster) -> None:
    with TransactionProducer("p", name_servers=ANYWHERE, listener=Answers(COMMIT)) as producer:
        assert producer.send_in_transaction(Message("orders", b"yes")).decided
    with TransactionProducer("p", name_servers=ANYWHERE, listener=Answers(ROLLBACK)) as producer:
        assert producer.send_in_transaction(Message("orders", b"no")).decided
    with TransactionProducer("p", name_servers=ANYWHERE, listener=Answers(UNKNOWN)) as producer:
        half = producer.send_in_transaction(Message("orders", b"perhaps"))
    assert [view.body for view in cluster.messages("orders")] == [b"yes"]
    (found,) = cluster.open_transactions()
    assert (found.transaction_id, found.topic, found.producer_group) == (half.transaction_id, "orders", "p")


def test_each_cluster_begins_empty() -> None:
    for _ in range(2):
        with LocalCluster() as cluster, Producer("p", name_servers=cluster.name_servers) as producer:
            assert cluster.messages("orders") == []
            producer.send(Message("orders", b"x"))
            assert len(cluster.messages("orders")) == 1


def test_the_test_itself_can_send(cluster: LocalCluster) -> None:
    cluster.send(Message("orders", b"x", tags="vip", keys=["k"]))
    (view,) = cluster.messages("orders")
    assert (view.body, view.tags, view.keys) == (b"x", "vip", ["k"])


def test_settings_of_the_broker_have_rocketmqs_names() -> None:
    settings = {"transactionTimeOut": 1000, "autoCreateTopicEnable": False}
    with LocalCluster(virtual_time=True, broker=settings) as cluster:
        cluster.create_topic("orders")
        listener = Answers(UNKNOWN, COMMIT)
        with TransactionProducer("p", name_servers=ANYWHERE, listener=listener) as producer:
            producer.send_in_transaction(Message("orders", b"x"))
            cluster.advance(1)
            assert listener.checks == 1
    with pytest.raises(ConfigError, match="transactionTimeout is no setting"):
        LocalCluster(broker={"transactionTimeout": 1})


def test_only_the_given_name_servers_answer() -> None:
    with LocalCluster(name_servers="ns-1:9876; ns-2:9876", virtual_time=True) as cluster:
        assert cluster.name_servers == "ns-1:9876"
        with Producer("p", name_servers="ns-2:9876") as producer:
            producer.send(Message("orders", b"x"))
        with Producer("p", name_servers="other:9876") as producer, pytest.raises(Unreachable, match="nobody in the"):
            producer.send(Message("orders", b"x"))


def test_a_second_cluster_is_refused_and_the_first_goes_on(cluster: LocalCluster) -> None:
    with pytest.raises(ConfigError, match="open in this process already"):
        LocalCluster().start()
    cluster.send(Message("orders", b"x"))


def test_clients_use_the_machine_again_afterwards() -> None:
    with LocalCluster():
        assert not isinstance(default_outside().network, TcpNetwork)
    assert isinstance(default_outside().network, TcpNetwork)


def test_a_client_that_is_given_an_outside_has_that(cluster: LocalCluster) -> None:
    with Producer("p", name_servers="127.0.0.1:1", outside=Outside(), send_timeout_ms=500) as producer:
        cluster.settle()
        assert cluster.messages("orders") == []
        with pytest.raises(Unreachable):
            producer.send(Message("orders", b"x"))


def test_a_cluster_that_is_closed_says_so() -> None:
    with LocalCluster() as cluster:
        pass
    with pytest.raises(Closed, match="not open"):
        cluster.messages("orders")
    with pytest.raises(Closed, match="started once"):
        cluster.start()


def test_a_client_that_was_not_closed_is_named_and_the_next_test_is_not_disturbed() -> None:
    threads = threading.active_count()
    with pytest.warns(UnclosedClientWarning) as caught, LocalCluster():
        producer = Producer("p", name_servers=ANYWHERE)
        producer.start()
        PushConsumer("c", name_servers=ANYWHERE, listener=print).subscribe("orders").start()
        producer.send(Message("orders", b"x"))
    words = sorted(str(warning.message) for warning in caught)
    assert words[0].startswith(f"a Producer made at {__file__}:") and "was not closed" in words[0]
    assert words[1].startswith(f"a PushConsumer made at {__file__}:")
    with pytest.raises(Closed):
        producer.send(Message("orders", b"x"))
    with LocalCluster() as cluster:
        assert cluster.messages("orders") == []
    for thread in threading.enumerate():
        if thread.name.startswith("gantrymq"):
            thread.join(10)
    assert threading.active_count() <= threads


def test_an_asyncio_client_that_was_not_closed_is_named_too() -> None:
    async def main() -> None:
        producer = aio.Producer("p", name_servers=ANYWHERE)
        await producer.start()
        await producer.send(Message("orders", b"x"))

    with pytest.warns(UnclosedClientWarning, match=r"a Producer made at .*test_cluster.py"), LocalCluster():
        asyncio.run(main())


def test_a_loop_that_cannot_be_asked_is_refused() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        async with aio.Producer("p", name_servers=ANYWHERE):
            pass

    with (
        LocalCluster(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        pytest.raises(ConfigError, match="cannot ask a loop of uvloop"),
    ):
        runner.run(main())


def test_clients_that_were_closed_are_not_named() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnclosedClientWarning)
        with LocalCluster(), Producer("p", name_servers=ANYWHERE) as producer:
            producer.send(Message("orders", b"x"))


def test_what_a_forked_child_may_not_do_is_said_clearly(cluster: LocalCluster) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        words = []
        for call in (lambda: cluster.messages("orders"), lambda: Producer("p", name_servers=ANYWHERE)):
            try:
                call()
            except UsedAfterFork as error:
                words.append(str(error))
        with LocalCluster() as own:
            own.send(Message("orders", b"x"))
            words.append(str(len(own.messages("orders"))))
        os.write(writer, "\n".join(words).encode())
        os._exit(0)
    os.waitpid(child, 0)
    first, second, third = os.read(reader, 4096).decode().split("\n")
    assert "belongs to the parent process; start one after the fork" in first
    assert "cannot be reached from a forked one" in second
    assert third == "1"
    cluster.send(Message("orders", b"the parent goes on"))


def test_importing_the_package_loads_no_test_library_and_no_spark() -> None:
    code = (
        "import sys; from gantrymq.testing import LocalCluster; "
        "print([name for name in ('pytest', 'hypothesis', 'pyspark', 'numpy') if name in sys.modules])"
    )
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3] / "src"), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=paths, check=True)
    assert done.stdout.strip() == "[]"
