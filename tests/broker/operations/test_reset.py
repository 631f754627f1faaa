"""Setting a group back or forth, without a door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.reset import ResetOrder, Resets
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import Member
from gantrymq.broker.registries.registries import open_registries
from gantrymq.message.heartbeat import ConsumerData
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.files.groups import Group
from gantrymq.runtime.disk import OsDisk
from tests.support.connections import KeptConnection
from tests.support.sim_clock import SimClock

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(2)]


class TenMessages:
    """A store whose queues have ten messages each, one per millisecond from 1000 on."""

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        return 0, 10

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        return max(0, timestamp - 1000)


class World:
    def __init__(self, root: Path, **settings: object) -> None:
        (root / "config").mkdir()
        config, clock = LiveConfig(BrokerConfig.of(**settings)), SimClock()
        self.registries = open_registries(config, OsDisk(), clock, lambda name: str(root / name))
        self.registries.topics.ensure("T", 2)
        self.registries.groups.update(Group(group_name="CG"))
        self.released: list[tuple[str, str]] = []
        self.resets = Resets(
            config, TenMessages(), self.registries, lambda group, topic: self.released.append((group, topic))
        )  # fmt: skip


def test_the_broker_takes_the_offsets_over_and_answers_who_waits(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.resets.reset(ResetOrder("T", "CG", 1003)) == dict.fromkeys(QUEUES, 3)
    assert world.registries.offsets.of_topic("CG", "T") == {0: 3, 1: 3} and world.released == [("CG", "T")]
    assert world.resets.reset(ResetOrder("T", "CG", -1)) == dict.fromkeys(QUEUES, 10)
    assert world.resets.reset(ResetOrder("T", "CG", -1, queue_id=1, offset=4)) == {QUEUES[1]: 4}
    assert world.registries.offsets.resets["CG", "T", 1] == 4


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (ResetOrder("No", "CG", 0), Refusal.TOPIC_UNKNOWN),
        (ResetOrder("T", "No", 0), Refusal.GROUP_UNKNOWN),
        (ResetOrder("T", "CG", 0, queue_id=0, offset=11), Refusal.FAILED),
    ],
)
def test_what_cannot_be_reset(tmp_path: Path, order: ResetOrder, reason: Refusal) -> None:
    with pytest.raises(Refused) as refused:
        World(tmp_path).resets.reset(order)
    assert refused.value.reason is reason


def test_the_members_commit_it_themselves_where_the_settings_say_so(tmp_path: Path) -> None:
    world = World(tmp_path, use_server_side_reset_offset=False)
    with pytest.raises(Refused) as refused:
        world.resets.reset(ResetOrder("T", "CG", 1003))
    assert refused.value.reason is Refusal.CONSUMER_OFFLINE
    members = [KeptConnection(1), KeptConnection(2)]
    for member in members:
        world.registries.consumers.register(ConsumerData(group_name="CG"), Member(member, "c", "JAVA", 513, 0.0))
    world.registries.offsets.commit("CG", "T", 0, 2)
    world.registries.offsets.commit("CG", "T", 1, 8)
    found: Any = world.resets.reset(ResetOrder("T", "CG", 1003, force=False))
    assert found == {QUEUES[0]: 2, QUEUES[1]: 3}, "only backwards"
    for member in members:
        (notice,) = member.notices
        assert (notice.group, notice.topic, notice.offsets) == ("CG", "T", found)
    assert world.registries.offsets.get("CG", "T", 1) == 8 and not world.released
