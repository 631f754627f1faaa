"""What every send must pass, and whether it made its topic."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.admission import Admission
from gantrymq.broker.refusal import Refused
from gantrymq.broker.registries.topics import Topics
from gantrymq.runtime.rng import SystemRng
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.layout import Layout
from gantrymq.store.reserve import Reserve
from gantrymq.store.room import Room
from gantrymq.store.space import Space
from tests.support.brokers import send_header
from tests.support.sim_clock import SimClock


def admission(announce: Callable[[Callable[[], None]], None] = lambda done: done()) -> Admission:
    disk, config = SimDisk(), LiveConfig(BrokerConfig.of(store_path_root_dir="/store"))
    disk.make_dirs("/store/config")
    topics = Topics(config, disk, SimClock(), "/store/config/topics.json")
    room = Room(Space(disk, Layout("/store")), SimClock(), 0.9, Reserve(disk, "/store/gantry/reserve", 0))
    return Admission(config, topics, SystemRng(), announce, room)


def test_only_the_send_that_made_a_topic_waits_for_the_name_servers() -> None:
    """A one-way send is never answered, so it never asks; the next sender was taken for the maker of its topic."""
    door = admission()
    door.admit(send_header("Old"), 1)
    assert door.admit(send_header("New"), 1)[0].made_topic
    assert not door.admit(send_header("New"), 1)[0].made_topic
    assert not door.admit(send_header("Old"), 1)[0].made_topic


def test_a_send_that_is_refused_after_it_made_its_topic_leaves_nothing_to_the_next() -> None:
    door = admission()
    door.admit(send_header("Old"), 1)
    with pytest.raises(Refused, match="queueId"):
        door.admit(send_header("New", queue_id=99), 1)
    assert not door.target(send_header("Old")).made_topic


def test_who_made_a_topic_is_answered_when_the_name_servers_know_it() -> None:
    waiting: list[Callable[[], None]] = []
    answered: list[object] = []
    door = admission(waiting.append)
    assert door.admit(send_header("New"), 1)[0].made_topic
    finish = door.when_known(answered.append)
    door.admit(send_header("New"), 1)
    finish(None)
    assert not answered and len(waiting) == 1
    waiting[0]()
    assert answered == [None]
