"""What a test can break in a local cluster: producers, consumers and the broker are killed."""

from __future__ import annotations

import pytest

from gantrymq import LocalTransactionState, Message, MessageView, Producer, PushConsumer, TransactionProducer
from gantrymq.errors import ConfigError, Unreachable
from gantrymq.testing import LocalCluster

from .test_cluster import ANYWHERE, COMMIT, UNKNOWN, Answers


class Dies(Answers):
    """Its process is killed at the end of the local transaction."""

    cluster: LocalCluster
    producer: TransactionProducer

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        self.cluster.kill(self.producer)
        return self.local


def test_the_broker_asks_another_producer_of_the_group(virtual: LocalCluster) -> None:
    virtual.create_topic("orders")
    listener = Dies(COMMIT)
    listener.cluster = virtual
    other = Answers(UNKNOWN, COMMIT)
    with (
        TransactionProducer("p", name_servers=ANYWHERE, listener=listener) as producer,
        TransactionProducer("p", name_servers=ANYWHERE, listener=other, topics=["orders"]),
    ):
        listener.producer = producer
        result = producer.send_in_transaction(Message("orders", b"x"))
        assert (result.state, result.decided) == (COMMIT, False)
        assert virtual.messages("orders") == []
        virtual.advance(6)
        assert other.checks == 1
        assert [view.body for view in virtual.messages("orders")] == [b"x"]
    assert virtual.open_transactions() == []


def test_who_was_killed_reaches_nobody(virtual: LocalCluster) -> None:
    with Producer("p", name_servers=ANYWHERE) as producer:
        producer.send(Message("orders", b"x"))
        virtual.kill(producer)
        with pytest.raises(Unreachable):
            producer.send(Message("orders", b"y"))
    assert [view.body for view in virtual.messages("orders")] == [b"x"]


def test_what_a_killed_consumer_had_not_finished_goes_to_another_one(virtual: LocalCluster) -> None:
    virtual.create_topic("orders", queues=1)
    got: list[bytes] = []

    def die(found: list[MessageView]) -> None:
        virtual.kill(first)

    def take(found: list[MessageView]) -> None:
        got.extend(view.body for view in found)

    first = PushConsumer("c", name_servers=ANYWHERE, listener=die).subscribe("orders")
    with first:
        virtual.send(Message("orders", b"x"))
        virtual.settle()
        with PushConsumer("c", name_servers=ANYWHERE, listener=take).subscribe("orders"):
            virtual.wait_until(lambda: got == [b"x"], seconds=120)


def test_only_clients_of_the_cluster_can_be_killed(virtual: LocalCluster) -> None:
    with pytest.raises(ConfigError, match="no client that was started in this local cluster"):
        virtual.kill(object())


@pytest.mark.parametrize("kill", [True, False], ids=["crash", "in order"])
def test_a_broker_that_starts_again_has_what_it_acknowledged(cluster: LocalCluster, kill: bool) -> None:
    with (
        Producer("p", name_servers=ANYWHERE) as producer,
        TransactionProducer("t", name_servers=ANYWHERE, listener=Answers(UNKNOWN)) as undecided,
    ):
        producer.send(Message("orders", b"x"))
        undecided.send_in_transaction(Message("orders", b"half"))
        before = cluster.open_transactions()
        cluster.restart_broker(kill=kill)
        assert [view.body for view in cluster.messages("orders")] == [b"x"]
        assert [half.transaction_id for half in cluster.open_transactions()] == [before[0].transaction_id]
        producer.send(Message("orders", b"y"))
        assert len(cluster.messages("orders")) == 2
