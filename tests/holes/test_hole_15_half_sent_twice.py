"""Hole 15: a half message that is sent again after a time-out.

The sender knows one half message, but an Apache broker has two with the same UNIQ_KEY. The second is committed. The
first is checked and, when answered COMMIT, delivered as well. On our broker the second send joins the first half
message. A second send to *another* broker cannot be joined. The sender could tell the two apart, but another member of
its group cannot, and that member gets the checks when the sender has died (found by simulation, seeds 93 and 138). So
our client sends a half message again only to the broker that may have stored it. If that broker does not answer in
time, the local transaction does not run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from gantrymq.client.sending.delivery import Delivery
from gantrymq.client.sending.half_memory import HalfMemory
from gantrymq.client.sending.publish import PublishQueues
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import Unreachable
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import LocalTransactionState, Resolution
from gantrymq.protocol.codes import ResponseCode
from gantrymq.simulation.world.cluster import NAME_SERVERS, BrokerHost, Cluster
from gantrymq.transactions.table.open_halves import TransactionTable
from tests.holes.actors import always
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.stage import INTERVAL_S, Stage, require, run_to_the_end

TRIES = 5


async def same_key_twice(stage: Stage) -> Observed:
    """Two halves with one key, the second is committed, every check is answered COMMIT."""
    topic, producer = await stage.topic(), await stage.producer()
    producer.answer = always(Resolution.COMMIT)
    firsts = await producer.halves(topic, TRIES)
    for first in firsts:
        second = await producer.half(topic, key=first.key)
        answer = await producer.commit(second)
        require(answer.code == ResponseCode.SUCCESS, f"not committed: {answer.remark}")
    await stage.comes_true(lambda: all(producer.checks_of(first) for first in firsts), 15 * INTERVAL_S)
    await stage.sleep(INTERVAL_S)
    keys = await stage.keys(topic)
    broken = sum(keys.count(first.key) != 1 for first in firsts)
    return Observed(broken, TRIES, f"{len(keys)} delivered, {len(producer.checks)} checks")


CASES = [
    Case(
        "second send with the same key",
        same_key_twice,
        (
            Mutant(
                "joining the half of the same key",
                lambda patch: patch.setattr(TransactionTable, "to_join", lambda *facts: None),
            ),
        ),
        both(Apache.ALWAYS),
    )
]


def test_hole_15_half_sent_twice(played: Callable[[], None]) -> None:
    played()


# ---- on another broker: the client's part


class _Listener:
    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


async def _second_send_on_another_broker(cluster: Cluster) -> int:
    """How often the message is delivered: the first broker stores the half, but its answer is lost."""
    await cluster.start_name_server()
    for host in cluster.brokers:
        await cluster.start_broker(host)
        assert host.broker is not None
        host.broker.topics.ensure("T", 1)
    await asyncio.sleep(1)
    process = cluster.process("service", "10.0.1.1")
    node, outside = process.node, process.outside
    producer = TransactionProducer(
        "order-service",
        name_servers=NAME_SERVERS,
        listener=_Listener(),
        outside=outside,
        topics=["T"],
        inline_listener=True,
    )  # fmt: skip
    await node.start(producer.start())
    for host in cluster.brokers:
        host.disk.hold_syncs = True
    sending = node.start(producer.send_in_transaction(Message("T", b"paid")))
    while not (
        got := [host for host in cluster.brokers if host.broker is not None and len(host.broker.coordinator.table)]
    ):
        await asyncio.sleep(0.01)
    for host in cluster.brokers:
        if host is not got[0]:
            _go_on(host)
    while not sending.done():
        for end in list(cluster.network._ends):
            if {end.host, end.other.host} == {"10.0.1.1", got[0].address}:
                end.reset("reset")
        await asyncio.sleep(0.01)
    with contextlib.suppress(Unreachable):
        result = await sending
        assert result.state is LocalTransactionState.COMMIT and result.queue.broker_name != got[0].name
    _go_on(got[0])
    await asyncio.sleep(30)
    assert not any(len(host.broker.coordinator.table) for host in cluster.brokers if host.broker is not None)
    return sum(host.broker.store.queue_range("T", 0)[1] for host in cluster.brokers if host.broker is not None)


def _go_on(host: BrokerHost) -> None:
    host.disk.hold_syncs = False
    while host.disk.held:
        host.disk.release_sync()


def test_hole_15_no_second_send_on_another_broker() -> None:
    """The half that may be stored on the broker that does not answer is rolled back: its transaction did not run."""
    cluster = Cluster.build(7)
    assert run_to_the_end(cluster.loop, _second_send_on_another_broker(cluster)) == 0


@pytest.mark.pure("a rule is taken out of the client while it runs")
def test_hole_15_a_second_send_on_another_broker_is_delivered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that goes on to the next broker, as Apache's do; a sibling that remembers no half is asked."""
    monkeypatch.setattr(Delivery, "_choose", _any_broker)
    monkeypatch.setattr(HalfMemory, "answer", lambda *facts: None)
    cluster = Cluster.build(7)
    assert run_to_the_end(cluster.loop, _second_send_on_another_broker(cluster)) == 2


def _any_broker(
    self: Delivery, publish: PublishQueues, same: str | None, avoid: str | None, now: float
) -> MessageQueue:
    return publish.choose(avoid, self._faults, now)
