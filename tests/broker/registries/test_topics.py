"""Topics and groups of a broker, on a disk in memory."""

from __future__ import annotations

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.topics import Topics, apply_attributes
from gantrymq.errors import ConfigError, DiskFull, MessageIllegal
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.simulation.world.disk import SimDisk
from tests.support.sim_clock import SimClock

PATH = "/config/topics.json"


def topics(disk: SimDisk | None = None, **settings: object) -> Topics:
    disk = disk or SimDisk()
    disk.make_dirs("/config")
    return Topics(LiveConfig(BrokerConfig.of(**settings)), disk, SimClock(), PATH)


def test_system_topics_are_there_from_the_start_once() -> None:
    disk = SimDisk()
    table = topics(disk)
    half = table.get("RMQ_SYS_TRANS_HALF_TOPIC")
    assert half is not None and half.read_queue_nums == 1
    schedule = table.get("SCHEDULE_TOPIC_XXXX")
    assert schedule is not None and schedule.read_queue_nums == 18
    template = table.get("TBW102")
    assert template is not None and (template.perm, template.write_queue_nums) == (7, 8)
    before = table.version
    assert topics(disk).version == before, "nothing new, nothing written"


def test_without_automatic_creation_there_is_no_template() -> None:
    assert topics(auto_create_topic_enable=False).get("TBW102") is None


def test_an_own_template_works_even_without_automatic_creation() -> None:
    table = topics(auto_create_topic_enable=False)
    made = table.create_for_send("T", "DefaultCluster", 3)
    assert made is not None and (made.read_queue_nums, made.perm) == (3, 6)
    assert table.create_for_send("U", "T", 3) is None, "a topic without the inherit bit is no template"


def test_a_topic_that_could_not_be_written_does_not_exist() -> None:
    disk = SimDisk()
    table = topics(disk)
    reported: list[object] = []
    table.changed.append(reported.append)
    disk.free_bytes = 0
    with pytest.raises(DiskFull):
        table.update(TopicConfig(topic_name="T"))
    assert table.get("T") is None and reported == []
    disk.free_bytes = None
    assert table.update(TopicConfig(topic_name="T"))
    assert len(reported) == 1
    assert not table.update(TopicConfig(topic_name="T")), "the same again is nothing"
    assert len(reported) == 1


def test_topics_survive_a_power_cut_right_after_the_call() -> None:
    for seed in range(20):
        disk = SimDisk(seed)
        table = topics(disk)
        table.update(TopicConfig(topic_name="T", read_queue_nums=3, attributes={"message.type": "TRANSACTION"}))
        again = topics(disk.power_cut())
        assert again.get("T") == table.get("T")


def test_a_read_only_broker_registers_its_topics_without_the_write_permission() -> None:
    table = topics(broker_permission=4)
    table.update(TopicConfig(topic_name="T"))
    assert table.table().topic_config_table["T"].perm == 4
    assert table.table().topic_config_table["TBW102"].perm == 5
    kept = table.get("T")
    assert kept is not None and kept.perm == 6


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (None, {"message.type": "NORMAL"}),
        ("", {"message.type": "NORMAL"}),
        ("+message.type=TRANSACTION", {"message.type": "TRANSACTION"}),
        ("-message.type", {}),
        ("+queue.type=SimpleCQ, -message.type", {"queue.type": "SimpleCQ"}),
    ],
)
def test_attributes(text: str | None, result: dict[str, str]) -> None:
    assert apply_attributes({"message.type": "NORMAL"}, text) == result


@pytest.mark.parametrize("text", ["message.type=NORMAL", "+message.type", "-a=b", "+=x", "+message.type=Transaction"])
def test_malformed_attributes(text: str) -> None:
    with pytest.raises(ConfigError):
        apply_attributes({}, text)


def test_groups_are_made_when_that_is_allowed() -> None:
    disk = SimDisk()
    disk.make_dirs("/config")
    groups = Groups(disk, SimClock(), "/config/g.json", auto_create=True)
    assert groups.find("G") == Group(group_name="G")
    assert groups.find("no good!") is None
    closed = Groups(disk, SimClock(), "/config/g.json", auto_create=False)
    assert closed.find("G") is not None, "it is on the disk"
    assert closed.find("H") is None
    with pytest.raises(MessageIllegal):
        closed.update(Group(group_name="no good!"))
    assert closed.delete("G") and not closed.delete("G")
    assert "TOOLS_CONSUMER" in closed.names()


def test_a_list_is_one_change_and_its_last_word_counts() -> None:
    disk = SimDisk()
    table = topics(disk)
    reported: list[list[TopicConfig]] = []
    table.changed.append(reported.append)
    before = table.version.counter
    one, two, other = (TopicConfig(topic_name=name, perm=perm) for name, perm in (("A", 4), ("B", 6), ("A", 2)))
    assert table.update(one, two, other)
    assert reported == [[other, two]] and table.version.counter == before + 1
    assert not table.update(other, two) and not table.update() and len(reported) == 1
    assert (topics(disk).get("A"), topics(disk).get("B")) == (other, two)
    groups = Groups(disk, SimClock(), "/config/subscriptionGroup.json", auto_create=False)
    with pytest.raises(MessageIllegal):
        groups.update(Group(group_name="G"), Group(group_name="not a name"))
    assert groups.get("G") is None
