"""Tables that are taken whole from another broker, with their versions: in memory and in the files, or not at all."""

from __future__ import annotations

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.registries.registries import Registries, open_registries
from gantrymq.errors import ConfigError, DiskFull
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.simulation.world.disk import SimDisk
from tests.support.sim_clock import SimClock


def registries(disk: SimDisk | None = None) -> Registries:
    disk = disk or SimDisk()
    disk.make_dirs("/config")
    return open_registries(LiveConfig(BrokerConfig()), disk, SimClock(), lambda name: f"/{name}")


def primary() -> Registries:
    """With something in each table."""
    found = registries()
    found.topics.update(TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4, perm=6, attributes={}))
    found.groups.update(Group(group_name="billing"))
    found.offsets.commit("billing", "orders", 1, 42)
    return found


def take(ours: Registries, theirs: Registries) -> None:
    table = theirs.topics.table()
    ours.topics.take(table.topic_config_table, table.data_version)
    ours.groups.take(theirs.groups.table())
    ours.offsets.take(theirs.offsets.content())


def tables(of: Registries) -> tuple[object, ...]:
    return of.topics.table(), of.groups.table(), of.offsets.content()


def test_a_table_is_taken_with_its_version_and_is_there_after_a_power_cut() -> None:
    disk, theirs = SimDisk(), primary()
    ours = registries(disk)
    ours.follow()
    take(ours, theirs)
    assert tables(ours) == tables(theirs)
    assert (ours.topics.version, ours.groups.version, ours.offsets.version) == (
        theirs.topics.version, theirs.groups.version, theirs.offsets.version
    )  # fmt: skip
    assert tables(registries(disk.power_cut())) == tables(theirs)


def test_a_topic_that_both_have_is_never_missing_and_listeners_hear_what_is_new() -> None:
    theirs, ours = primary(), primary()
    kept = ours.topics.get("orders")
    ours.topics.update(TopicConfig(topic_name="old", read_queue_nums=1, write_queue_nums=1, perm=6, attributes={}))
    theirs.topics.update(TopicConfig(topic_name="new", read_queue_nums=1, write_queue_nums=1, perm=6, attributes={}))
    heard: list[list[str]] = []

    def changed(topics: list[TopicConfig]) -> None:
        assert ours.topics.get("orders") == kept
        heard.append([topic.topic_name for topic in topics])

    ours.topics.changed.append(changed)
    take(ours, theirs)
    assert heard == [["new"], []], "one is new, and one is gone"


def test_a_table_that_cannot_be_written_or_read_is_not_taken() -> None:
    disk, theirs = SimDisk(), primary()
    ours = registries(disk)
    before = tables(ours)
    disk.free_bytes = 0
    for taken in (
        lambda: ours.topics.take(theirs.topics.table().topic_config_table, theirs.topics.version),
        lambda: ours.groups.take(theirs.groups.table()),
        lambda: ours.offsets.take(theirs.offsets.content()),
    ):
        with pytest.raises(DiskFull):
            taken()
    disk.free_bytes = None
    with pytest.raises(ConfigError):
        ours.offsets.take({"offsetTable": {"orders@billing": {"one": "two"}}})
    assert tables(ours) == before


def test_a_table_of_another_broker_is_not_added_to_here() -> None:
    ours = registries()
    ours.follow()
    version = ours.topics.version, ours.groups.version
    ours.offsets.commit("billing", "orders", 0, 7)
    assert ours.offsets.get("billing", "orders", 0) is None
    assert ours.topics.ensure_all({"%RETRY%billing": 1}) == []
    assert ours.groups.find("billing") is not None, "it may read all the same"
    assert (ours.topics.version, ours.groups.version) == version
    ours.lead()
    ours.offsets.commit("billing", "orders", 0, 7)
    assert ours.offsets.get("billing", "orders", 0) == 7
    assert ours.topics.ensure_all({"%RETRY%billing": 1}) != []


def test_equal_versions_of_the_offsets_are_equal_tables() -> None:
    disk = SimDisk()
    offsets = registries(disk).offsets
    seen = [offsets.version]
    assert offsets.version == seen[0], "asking alone changes nothing"
    for change in (
        lambda: offsets.commit("billing", "orders", 1, 42),
        lambda: offsets.commit("billing", "orders", 1, 43),
        lambda: offsets.lower("billing", "orders", 1, 7),
        lambda: offsets.reset("billing", "orders", 1, 9),
        lambda: offsets.forget_group("billing"),
    ):
        change()
        assert offsets.version["counter"] == seen[-1]["counter"] + 1
        seen.append(offsets.version)
    offsets.commit("billing", "orders", 1, 42)
    offsets.commit("billing", "orders", 1, 42)
    before = offsets.version
    offsets.commit("billing", "orders", 1, 42)
    assert offsets.version == before, "it is where it was"
    offsets.save()
    assert registries(disk.power_cut()).offsets.version == before
