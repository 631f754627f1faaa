"""Changes of one turn of the loop are one write, and are answered as if each was alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.operations.groups import GroupAdministration
from gantrymq.broker.operations.table_changes import DeleteGroup, DeleteTopic, MakeGroups, MakeTopics, TableChanges
from gantrymq.broker.operations.topics import TopicAdministration, TopicOrder
from gantrymq.broker.refusal import Refused
from gantrymq.broker.registries.json_file import read_json
from gantrymq.broker.registries.registries import GROUPS_FILE, TOPICS_FILE, open_registries
from gantrymq.errors import StoreError
from gantrymq.protocol.files.groups import Group
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk


class _Queues:
    def delete_topic(self, topic: str, done: object) -> None:
        done(None)  # type: ignore[operator]

    def topics(self) -> set[str]:
        return set()


def order(name: str, attributes: str | None = None) -> TopicOrder:
    return TopicOrder(name, 4, 4, 6, "SINGLE_TAG", 0, False, attributes)


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_a_thousand_changes_are_a_few_writes(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    disk = OsDisk()
    registries = open_registries(
        LiveConfig(BrokerConfig()), disk, SystemClock(), lambda name: str(tmp_path / name)
    )  # fmt: skip
    topics, groups = registries.topics, registries.groups
    announced: list[int] = []

    def announce(done: object) -> None:
        announced.append(topics.version.counter)
        done()  # type: ignore[operator]

    changes = TableChanges(
        TopicAdministration(topics, registries.offsets, _Queues(), MessageCounters(), announce),
        GroupAdministration(groups, registries.offsets),
        SystemClock(),
    )
    told: dict[str, Refused | StoreError | None] = {}

    async def play() -> None:
        before = topics.version.counter, groups.table().data_version.counter
        for number in range(1000):
            name = f"T{number}"
            changes.add(MakeTopics([order(name)], lambda refused, name=name: told.update({name: refused})))  # type: ignore[misc]
        changes.add(MakeTopics([order("no name")], lambda refused: told.update(wrong=refused)))
        changes.add(MakeTopics([order("T1", "+a=1")], lambda refused: told.update(first=refused)))
        changes.add(MakeTopics([order("T1", "+b=2")], lambda refused: told.update(second=refused)))
        for number in range(1000):
            changes.add(MakeGroups([Group(group_name=f"Group{number}")], lambda refused: told.update(group=refused)))
        impossible = [Group(group_name="Group1"), Group(group_name="no name")]
        changes.add(MakeGroups(impossible, lambda refused: told.update(wrong_group=refused)))
        assert not told, "nothing is answered before it is on the disk"
        await turn()
        assert (topics.version.counter - before[0], groups.table().data_version.counter - before[1]) == (1, 1)
        assert announced == [topics.version.counter]
        assert isinstance(told.pop("wrong"), Refused) and isinstance(told.pop("wrong_group"), Refused)
        assert set(told.values()) == {None}
        config = topics.get("T1")
        assert config is not None and config.attributes == {"a": "1", "b": "2"}, "the second sees what the first did"

        changes.add(DeleteTopic("T1", lambda error: told.update(deleted=error)))
        changes.add(MakeTopics([order("T1")], lambda refused: told.update(again=refused)))
        changes.add(DeleteTopic("T2", lambda error: told.update(deleted=error)))
        changes.add(DeleteGroup("Group1", True, lambda refused: told.update(left=refused)))
        await turn()
        assert topics.exists("T1") and not topics.exists("T2"), "in the order in which they came"
        assert groups.get("Group1") is None and told["again"] is told["left"] is told["deleted"] is None

    asyncio.run(play())
    stored = read_json(disk, str(tmp_path / TOPICS_FILE))
    assert stored is not None and "T999" in stored["topicConfigTable"] and "T2" not in stored["topicConfigTable"]
    stored = read_json(disk, str(tmp_path / GROUPS_FILE))
    assert stored is not None and "Group999" in stored["subscriptionGroupTable"]
