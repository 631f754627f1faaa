"""Apache's configuration files: form, fallback, and what is never overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.json_file import LazyFile, pretty, read_json, write_json
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk, read_whole, write_durably
from gantrymq.simulation.world.disk import SimDisk
from tests.golden.stores import NAMES, unpack
from tests.support.places import run
from tests.support.sim_clock import SimClock, settle

FASTJSON = """\
{
	"a":{
		"list":[
			"ü",
			true
		],
		"x":[]
	},
	"b":{
		2:5,
		10:1
	}
}"""


def test_the_form_is_fastjsons() -> None:
    assert pretty({"b": {10: 1, 2: 5}, "a": {"x": [], "n": None, "list": ["ü", True]}}) == FASTJSON
    assert pretty({}) == "{}"


def test_what_is_written_is_read() -> None:
    disk = SimDisk()
    disk.make_dirs("/config")
    write_json(disk, "/config/x.json", {"t": {1: 2}})
    assert read_json(disk, "/config/x.json") == {"t": {"1": 2}}
    assert read_json(disk, "/config/y.json") is None


@pytest.mark.parametrize("damage", [b"", b"  ", b"{broken", b"[]", b'"text"'])
def test_the_backup_is_read_when_the_file_is_not_readable(damage: bytes) -> None:
    disk = SimDisk()
    disk.make_dirs("/c")
    write_durably(disk, "/c/x.json", damage)
    with pytest.raises(ConfigError, match=r"x\.json"):
        read_json(disk, "/c/x.json")
    write_json(disk, "/c/x.json.bak", {"old": 1})
    assert read_json(disk, "/c/x.json") == {"old": 1}
    write_durably(disk, "/c/x.json.bak", b"{")
    with pytest.raises(ConfigError, match=r"x\.json\.bak"):
        read_json(disk, "/c/x.json")
    assert read_whole(disk, "/c/x.json") == damage


def test_a_lazy_file_keeps_the_old_content_until_the_new_one_is_safe() -> None:
    async def work() -> None:
        disk = SimDisk()
        disk.make_dirs("/c")
        file = LazyFile(disk, "/c/x.json")
        file.write_later(lambda: {"never": 1})
        await settle()
        assert read_json(disk, "/c/x.json") is None, "nothing to write"
        file.write({"v": 1})
        disk.hold_syncs = True
        file.dirty = True
        file.write_later(lambda: {"v": 2})
        file.dirty = True
        file.write_later(lambda: {"v": 3})
        assert read_json(disk, "/c/x.json") == {"v": 1}
        disk.release_sync()
        await settle()
        assert read_json(disk, "/c/x.json") == {"v": 2}
        assert file.dirty, "the third one waits for the next round"
        disk.hold_syncs = False
        disk.fail_next_sync("x.json")
        file.write_later(lambda: {"v": 3})
        await settle()
        assert (read_json(disk, "/c/x.json"), file.dirty) == ({"v": 2}, True), "a failed sync changes nothing"
        file.write_later(lambda: {"v": 4})
        await settle()
        assert read_json(disk, "/c/x.json") == {"v": 4}

    run(work())


def test_an_older_write_under_way_does_not_replace_a_newer_one() -> None:
    async def work() -> None:
        disk = SimDisk()
        disk.make_dirs("/c")
        file = LazyFile(disk, "/c/x.json")
        disk.hold_syncs = True
        file.dirty = True
        file.write_later(lambda: {"v": "old"})
        file.write({"v": "new"})
        disk.release_sync()
        await settle()
        assert read_json(disk, "/c/x.json") == {"v": "new"}

    run(work())


@pytest.mark.parametrize("name", NAMES)
def test_the_files_of_apaches_brokers_are_read(tmp_path: Path, name: str) -> None:
    root = unpack(name, tmp_path)
    disk, clock = OsDisk(), SimClock()
    topics = Topics(LiveConfig(BrokerConfig()), disk, clock, str(root / "config/topics.json"))
    read_only = topics.get("StoreReadOnly")
    assert read_only is not None
    assert (read_only.perm, read_only.read_queue_nums, read_only.write_queue_nums) == (4, 3, 5)
    assert topics.get("TBW102") is not None
    groups = Groups(disk, clock, str(root / "config/subscriptionGroup.json"), auto_create=True)
    configured = groups.get("CG_configured")
    assert configured is not None and not configured.consume_broadcast_enable
    offsets = ConsumerOffsets(disk, str(root / "config/consumerOffset.json"), clock)
    assert set(offsets.of_topic("CG_store", "StorePlain")) == {0, 1, 2, 3}
    before = offsets.of_topic("CG_store", "StorePlain")
    offsets.commit("CG_store", "StorePlain", 0, 99)
    offsets.save()
    again = ConsumerOffsets(disk, str(root / "config/consumerOffset.json"), clock)
    assert again.of_topic("CG_store", "StorePlain") == {**before, 0: 99}
    assert "\t0:99" in (root / "config/consumerOffset.json").read_text(), "integer keys without quotes, as fastjson"
