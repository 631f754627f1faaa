"""Sharing out queues, without a name server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.pop.assignments import ROUTE_SECONDS, Assignments
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups, Member
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.request_modes import RequestModes
from gantrymq.broker.registries.topics import Topics
from gantrymq.message.heartbeat import ConsumerData, MessageModel
from gantrymq.message.pop import Assignment, AssignmentQuery, RequestMode
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.files.request_modes import GroupRequestMode
from gantrymq.runtime.disk import OsDisk
from tests.broker.transaction_lab import LabClock
from tests.support.clients import PlainClient


@dataclass
class Routes:
    """The routes of the name servers; None: no name server can be reached."""

    queues: list[MessageQueue] | None
    asked: list[str] = field(default_factory=list)

    async def readable_queues(self, topic: str) -> list[MessageQueue] | None:
        self.asked.append(topic)
        return self.queues


class Lab:
    """A broker with topic T of two queues, in a cluster of two brokers."""

    def __init__(self, root: Path, **config: object) -> None:
        settings = LiveConfig(BrokerConfig.of(store_path_root_dir=str(root), broker_name="a", **config))
        self.clock = LabClock()
        disk = OsDisk()
        self.topics = Topics(settings, disk, self.clock, str(root / "topics.json"))
        self.topics.ensure("T", 2)
        groups = Groups(disk, self.clock, str(root / "groups.json"), auto_create=False)
        self.consumers = ConsumerGroups()
        modes = RequestModes(disk, str(root / "modes.json"), RequestMode.PULL, -1)
        self.routes = Routes([MessageQueue("T", broker, number) for broker in "ab" for number in range(2)])
        self.assignments = Assignments(
            settings, self.topics, groups, self.consumers, modes, self.routes, self.clock
        )  # fmt: skip

    def join(self, *client_ids: str) -> None:
        for number, client_id in enumerate(client_ids):
            member = Member(PlainClient(number), client_id, "JAVA", 1, 0.0)  # type: ignore[arg-type]
            self.consumers.register(ConsumerData(group_name="G"), member)

    async def query(self, client_id: str, **fields: object) -> list[str] | None:
        """Names of the queues of a member."""
        wanted = AssignmentQuery(topic="T", consumer_group="G", client_id=client_id, **fields)  # type: ignore[arg-type]
        later: asyncio.Future[Sequence[Assignment] | None] = asyncio.get_running_loop().create_future()
        self.assignments.query(wanted, later.set_result)
        found = await later
        if found is None:
            return None
        queues = [item.message_queue for item in found]
        return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_members_share_the_queues_of_all_brokers(lab: Lab) -> None:
    async def work() -> None:
        lab.join("1", "2")
        assert await lab.query("1") == ["a0", "a1"]
        assert await lab.query("2") == ["b0", "b1"]
        assert await lab.query("2", strategy_name="AVG_BY_CIRCLE") == ["a1", "b1"]
        assert await lab.query("2", message_model=MessageModel.BROADCASTING) == ["a0", "a1", "b0", "b1"]
        assert lab.routes.asked == ["T"]
        lab.clock.advance(ROUTE_SECONDS + 1)
        await lab.query("1")
        assert lab.routes.asked == ["T", "T"]

    asyncio.run(work())


def test_without_name_servers_the_last_route_counts_or_the_broker_itself(lab: Lab) -> None:
    async def work() -> None:
        lab.join("1")
        known, lab.routes.queues = lab.routes.queues, None
        assert await lab.query("1") == ["a0", "a1"]
        lab.routes.queues = known
        assert await lab.query("1") == ["a0", "a1", "b0", "b1"]
        lab.routes.queues = None
        lab.clock.advance(ROUTE_SECONDS + 1)
        assert await lab.query("1") == ["a0", "a1", "b0", "b1"]

    asyncio.run(work())


def test_nothing_is_said_where_nothing_is_known(lab: Lab) -> None:
    async def work() -> None:
        assert await lab.query("1") is None, "the group is not connected"
        lab.join("1")
        assert await lab.query("1", strategy_name="?") is None
        lab.routes.queues = []
        lab.clock.advance(ROUTE_SECONDS + 1)
        assert await lab.query("1") is None

    asyncio.run(work())


def test_refused_modes(lab: Lab) -> None:
    for topic, reason in (
        ("%RETRY%G", Refusal.NOT_PERMITTED),
        ("Nowhere", Refusal.TOPIC_UNKNOWN),
        ("T", Refusal.GROUP_UNKNOWN),
    ):
        with pytest.raises(Refused) as caught:
            lab.assignments.set_mode(GroupRequestMode(topic=topic, consumer_group="G"))
        assert caught.value.reason is reason
    assert lab.assignments.modes().message_request_mode_map == {}
