"""The queues of a route, and the routes that name servers return."""

from __future__ import annotations

import asyncio

from gantrymq.aio import Admin
from gantrymq.client.connection.routes import publish_queues, subscribe_queues
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.route import BrokerData, QueueData, TopicRoute
from tests.client.peer import cluster, run


def route(**perms: int) -> TopicRoute:
    """One broker for each name, with two queues to write and three to read."""
    return TopicRoute(
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=3, write_queue_nums=2, perm=perm)
            for name, perm in perms.items()
        ],
        broker_datas=[
            BrokerData(broker_name=name, broker_addrs={0 if name != "slave" else 1: f"{name}:1"}) for name in perms
        ],
    )


def names(queues: list[MessageQueue]) -> list[str]:
    return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


def test_only_writable_queues_with_a_master_are_sent_to() -> None:
    assert names(publish_queues("T", route(b=6, a=2, readonly=4, slave=6))) == ["a0", "a1", "b0", "b1"]


def test_only_readable_queues_are_read_also_from_a_slave() -> None:
    assert names(subscribe_queues("T", route(b=6, a=2, slave=4))) == ["b0", "b1", "b2", "slave0", "slave1", "slave2"]


def test_an_order_topic_says_its_queues_itself() -> None:
    ordered = TopicRoute(broker_datas=route(a=6).broker_datas, order_topic_conf="a:2;b:1")
    assert names(publish_queues("T", ordered)) == ["a0", "a1", "b0"]


def test_brokers_that_no_topic_is_on_any_more_are_forgotten() -> None:
    async def test() -> None:
        async with cluster(brokers=2) as peers, Admin(peers.address) as admin:
            routes = admin._endpoint.routes
            await routes.fetch("T")
            assert routes.masters() == {broker.address for broker in peers.brokers}
            gone = peers.brokers.pop()
            await routes.fetch("T")
            assert routes.masters() == routes.addresses() == {peers.broker.address}
            assert routes.master(gone.name) is routes.readable(gone.name) is routes.name_at(gone.address) is None
            peers.brokers.append(gone)

    run(test)


def test_many_questions_for_one_topic_are_one_request() -> None:
    async def test() -> None:
        async with cluster() as peers, Admin(peers.address) as admin:
            await asyncio.gather(*[admin.route("T") for _ in range(50)])
            assert peers.asked == ["T"]

    run(test)
