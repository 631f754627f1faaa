"""Members of groups, without a door: heartbeats, leaving, silence, locks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.members import Members
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.registries import open_registries
from gantrymq.message.heartbeat import ConsumerData, ProducerData, SubscriptionData
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.runtime.disk import OsDisk
from tests.support.connections import KeptConnection
from tests.support.sim_clock import SimClock


class World:
    """Members of a broker whose name servers are slow. ``announced``: the callers that wait for them."""

    def __init__(self, root: Path, **settings: object) -> None:
        config = LiveConfig(BrokerConfig.of(**settings))
        (root / "config").mkdir()
        self.clock = SimClock()
        registries = open_registries(config, OsDisk(), self.clock, lambda name: str(root / name))
        self.topics, self.producers, self.consumers = registries.topics, registries.producers, registries.consumers
        self.announced: list[Callable[[], None]] = []
        self.members = Members(config, registries, self.clock, self.announced.append)

    def beat(self, connection: KeptConnection, *topics: str, client_id: str = "") -> list[str]:
        """A heartbeat; the list has an entry once it is answered."""
        consumer = ConsumerData(
            group_name="CG", subscription_data_set=[SubscriptionData.of_tags(topic, "*", 1) for topic in topics]
        )
        data = HeartbeatData(
            client_id=client_id or f"client-{connection.id}",
            consumer_data_set=[consumer],
            producer_data_set=[ProducerData(group_name="PG")],
        )
        answered: list[str] = []
        self.members.heartbeat(connection, data, "JAVA", 513, lambda: answered.append("answered"))
        return answered


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_first_heartbeat_of_a_group_waits_for_the_route_of_its_retry_topic(world: World) -> None:
    answered = world.beat(KeptConnection(1), "T")
    assert world.topics.exists("%RETRY%CG") and not answered
    (announced,) = world.announced
    announced()
    assert answered
    assert world.beat(KeptConnection(2), "T"), "the second one waits for nothing"


def test_members_hear_of_each_other(world: World) -> None:
    one, two = KeptConnection(1), KeptConnection(2)
    world.beat(one, "T")
    world.beat(two, "T")
    assert (one.notices, two.notices) == (["CG", "CG"], ["CG"])
    assert world.members.client_ids("CG") == ["client-1", "client-2"]
    world.members.unregister(two, "PG", "CG")
    assert len(one.notices) == 3 and world.producers.members("PG")[0].client_id == "client-1"
    world.members.connection_closed(one)
    assert world.consumers.get("CG") is None and not world.producers.groups()
    with pytest.raises(Refused) as refused:
        world.members.client_ids("CG")
    assert refused.value.reason is Refusal.FAILED


def test_no_notices_where_they_are_switched_off(tmp_path: Path) -> None:
    world = World(tmp_path, notify_consumer_ids_changed_enable=False)
    one = KeptConnection(1)
    world.beat(one, "T")
    assert one.notices == [] and world.members.client_ids("CG")


def test_silent_members_are_taken_out(world: World) -> None:
    one, two = KeptConnection(1), KeptConnection(2)
    world.beat(one, "T")
    asyncio.run(world.clock.advance(100))
    world.beat(two, "T")
    asyncio.run(world.clock.advance(21))
    world.members.expire()
    assert world.members.client_ids("CG") == ["client-2"] and two.notices == ["CG", "CG"]


def test_a_heartbeat_without_a_client_id_is_refused(world: World) -> None:
    with pytest.raises(Refused, match="clientID"):
        world.members.heartbeat(KeptConnection(1), HeartbeatData(client_id=""), "JAVA", 513, lambda: None)


def test_locks_run_out_by_the_clock_of_the_broker(world: World) -> None:
    queues = [MessageQueue("T", "broker-a", 0)]
    assert world.members.lock("CG", "one", queues) == queues
    assert world.members.lock("CG", "two", queues) == []
    asyncio.run(world.clock.advance(60))
    assert world.members.lock("CG", "two", queues) == queues
    world.members.unlock("CG", "two", queues)
    assert world.members.lock("CG", "one", queues) == queues
