"""Selectors of groups, in virtual time and on a simulated disk."""

from __future__ import annotations

import pytest

from gantrymq.broker.registries.filters import KEPT_AFTER_DEATH_MS, ConsumerFilters
from gantrymq.errors import ConfigError
from gantrymq.message.heartbeat import SubscriptionData
from gantrymq.runtime.disk import read_whole
from gantrymq.simulation.world.disk import SimDisk
from tests.support.places import run
from tests.support.sim_clock import SimClock

PATH = "/s/consumerFilter.json"

APACHE = b"""{
	"bloomFilter":{"f":20,"k":3,"m":112,"n":32},
	"filterDataByTopic":{"T":{"groupFilterData":{
		"CG":{"bloomFilterData":{"bitNum":112,"bitPos":[1,2,3]},"bornTime":1000,"clientVersion":7,
			"consumerGroup":"CG","dead":false,"deadTime":0,"expression":"a > 5","expressionType":"SQL92","topic":"T"},
		"BAD":{"bornTime":1000,"clientVersion":7,
			"consumerGroup":"BAD","deadTime":0,"expression":"a >","expressionType":"SQL92","topic":"T"}
	},"topic":"T"}}
}"""


def sql(expression: str, version: int, topic: str = "T") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type="SQL92")


def wanted(filters: ConsumerFilters, text: str = "a\x016\x02") -> bool:
    entry = filters.get("T", "CG")
    assert entry is not None and entry[1].wants is not None
    return entry[1].wants(text)


def a_disk(content: bytes = b"") -> SimDisk:
    disk = SimDisk(seed=1)
    disk.make_dirs("/s")
    if content:
        file = disk.open(PATH, create=True)
        file.write(content, 0)
        file.close()
    return disk


def test_only_a_newer_version_replaces_a_selector() -> None:
    filters = ConsumerFilters(a_disk(), SimClock(), PATH)
    filters.subscribed("CG", [sql("a > 5", 10), SubscriptionData.of_tags("U", "A", 10)])
    assert wanted(filters) and filters.get("U", "CG") is None
    filters.subscribed("CG", [sql("a > 9", 9)])
    filters.subscribed("CG", [sql("a > 9", 10)])
    assert wanted(filters)
    filters.subscribed("CG", [sql("a > 9", 11)])
    assert not wanted(filters)
    filters.subscribed("CG", [sql("a >", 12)])
    assert filters.get("T", "CG") is None


def test_what_is_not_subscribed_to_any_more_is_dead_and_comes_back() -> None:
    async def work() -> None:
        clock = SimClock()
        filters = ConsumerFilters(a_disk(), clock, PATH)
        filters.subscribed("CG", [sql("a > 5", 10)])
        await clock.advance(1)
        filters.subscribed("CG", [])
        entry = filters.get("T", "CG")
        assert entry is not None and entry[0].is_dead
        filters.subscribed("CG", [sql("a > 5", 10)])
        entry = filters.get("T", "CG")
        assert entry is not None and not entry[0].is_dead

    run(work())


def test_a_day_after_its_group_a_selector_is_forgotten() -> None:
    async def work() -> None:
        clock = SimClock()
        filters = ConsumerFilters(a_disk(), clock, PATH)
        filters.subscribed("CG", [sql("a > 5", 10)])
        filters.subscribed("STAYS", [sql("a > 5", 10)])
        await clock.advance(1)
        filters.left("CG")
        await clock.advance(KEPT_AFTER_DEATH_MS / 1000 + 1)
        groups = filters.content()["filterDataByTopic"]["T"]["groupFilterData"]
        assert list(groups) == ["STAYS"]
        assert filters.get("T", "CG") is None

    run(work())


def test_apaches_file_is_read_and_ours_has_the_same_fields() -> None:
    disk = a_disk(APACHE)
    filters = ConsumerFilters(disk, SimClock(), PATH)
    entry = filters.get("T", "CG")
    assert wanted(filters) and entry is not None and entry[0].is_dead and entry[0].client_version == 7
    assert filters.get("T", "BAD") is None, "one that cannot be used must not let everything pass"
    written = filters.content()["filterDataByTopic"]["T"]
    assert written["topic"] == "T"
    assert set(written["groupFilterData"]["CG"]) == {
        "bloomFilterData", "bornTime", "clientVersion", "consumerGroup", "dead", "deadTime", "expression",
        "expressionType", "topic",
    }  # fmt: skip
    filters.subscribed("CG", [sql("a > 5", 8)])
    filters.save()
    assert b'"bitNum":112' in read_whole(disk, PATH)


@pytest.mark.parametrize(
    "content", [b'{"filterDataByTopic":[5]}', b'{"filterDataByTopic":{"T":{"groupFilterData":{"G":{}}}}}']
)
def test_a_file_that_is_something_else_is_not_overwritten(content: bytes) -> None:
    with pytest.raises(ConfigError, match="consumerFilter"):
        ConsumerFilters(a_disk(content), SimClock(), PATH)
