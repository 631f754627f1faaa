"""Topics that operators make and remove, without a door."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.operations.topics import TopicAdministration, TopicOrder
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.registries import open_registries
from gantrymq.errors import StoreError
from gantrymq.message.system_topics import HALF
from gantrymq.runtime.disk import OsDisk
from tests.support.sim_clock import SimClock

ORDER = TopicOrder("T", 4, 4, 6, "SINGLE_TAG", 0, False, None)


class SlowDeletions:
    """A store that deletes queues when the test says so."""

    def __init__(self) -> None:
        self.deleting: dict[str, Callable[[StoreError | None], None]] = {}

    def delete_topic(self, topic: str, done: Callable[[StoreError | None], None]) -> None:
        self.deleting[topic] = done

    def topics(self) -> set[str]:
        return {f"%LMQ%${topic}$a" for topic in ("Baskets", "T2")}


class World:
    def __init__(self, root: Path) -> None:
        (root / "config").mkdir()
        config, clock, self.store = LiveConfig(BrokerConfig()), SimClock(), SlowDeletions()
        registries = open_registries(config, OsDisk(), clock, lambda name: str(root / name))
        self.topics, self.offsets = registries.topics, registries.offsets
        self.announced: list[Callable[[], None]] = []
        self.administration = TopicAdministration(
            self.topics,
            self.offsets,
            self.store,
            MessageCounters(),
            self.announced.append,
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_topic_is_made_when_the_name_servers_know_it(world: World) -> None:
    done: list[str] = []
    world.administration.update([ORDER], lambda: done.append("made"))
    assert world.administration.get("T").write_queue_nums == 4 and not done
    world.announced.pop()()
    assert done == ["made"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a b"},
        {"name": HALF},
        {"read_queues": 0},
        {"write_queues": 100_000},
        {"perm": 8},
        {"attributes": "+message.type=SOMETHING"},
    ],
)
def test_all_or_none(world: World, wrong: dict[str, object]) -> None:
    with pytest.raises(Refused) as refused:
        world.administration.update([ORDER, dataclasses.replace(ORDER, **wrong)], lambda: None)  # type: ignore[arg-type]
    assert refused.value.reason is Refusal.PARAMETER_INVALID
    assert not world.topics.exists("T") and not world.announced


def test_an_empty_list_is_refused(world: World) -> None:
    with pytest.raises(Refused, match="names no topic"):
        world.administration.update([], lambda: None)


def test_a_topic_is_gone_when_its_queues_and_those_of_its_retries_are(world: World) -> None:
    for name in ("T", "%RETRY%CG_T"):
        world.topics.ensure(name, 1)
    world.offsets.commit("CG", "T", 0, 7)
    ended: list[StoreError | None] = []
    world.administration.delete("T", ended.append)
    assert not world.topics.exists("T") and world.offsets.get("CG", "T", 0) is None
    problem = StoreError("the disk is full")
    world.store.deleting["%RETRY%CG_T"](problem)
    assert not ended
    world.store.deleting["T"](None)
    assert ended == [problem], "the first thing that went wrong"


def test_what_belongs_to_the_system_stays(world: World) -> None:
    with pytest.raises(Refused, match="stays"):
        world.administration.delete(HALF, lambda _: None)
    assert "TBW102" in world.administration.system_topics()


def test_a_topic_is_deleted_with_its_lite_topics(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.administration.update([replace(ORDER, name="Baskets", attributes="+message.type=LITE")], lambda: None)
    world.offsets.commit("G", "%LMQ%$Baskets$a", 0, 7)
    world.administration.delete("Baskets", lambda error: None)
    assert set(world.store.deleting) == {"%LMQ%$Baskets$a", "Baskets"}
    assert world.offsets.get("G", "%LMQ%$Baskets$a", 0) is None
