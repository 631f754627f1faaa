"""A list of topics or groups is stored with one write, however long it is."""

from __future__ import annotations

from collections import Counter

import pytest

from gantrymq.protocol.bodies.groups import GroupConfigList
from gantrymq.protocol.bodies.topics import TopicConfigList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.simulation.world.disk import SimDisk
from tests.support.brokers import Cluster, on_broker

NAMES = [f"N{number}" for number in range(500)]
TOPICS = TopicConfigList(topic_config_list=[TopicConfig(topic_name=name) for name in NAMES]).encode()
GROUPS = GroupConfigList(group_config_list=[Group(group_name=name) for name in NAMES]).encode()


class CountingDisk(SimDisk):
    """Counts how often each file is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.replaced: Counter[str] = Counter()

    def rename(self, source: str, target: str) -> None:
        self.replaced[target] += 1
        super().rename(source, target)


@pytest.mark.parametrize(
    ("code", "body", "file"),
    [
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, TOPICS, "/store/config/topics.json"),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, GROUPS, "/store/config/subscriptionGroup.json"),
    ],
)
def test_a_list_is_stored_with_one_write(code: RequestCode, body: bytes, file: str) -> None:
    disk = CountingDisk()

    async def work(c: Cluster) -> None:
        known = c.broker.topics.names if code is RequestCode.UPDATE_AND_CREATE_TOPIC_LIST else c.broker.groups.names
        before = disk.replaced[file]
        for _ in range(2):  # the second time nothing is different
            assert (await c.ask(code, body=body)).code == ResponseCode.SUCCESS
            assert set(NAMES) <= set(known())
            assert disk.replaced[file] == before + 1

    on_broker(work, "/store", disk=disk)
