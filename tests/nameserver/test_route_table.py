"""The route table, without a network."""

from __future__ import annotations

import dataclasses

from gantrymq.nameserver.route_table import ALIVE_SECONDS, EXPIRY_SECONDS, Registration, RouteTable
from gantrymq.protocol.files.topics import DataVersion, TopicConfig

V1, V2 = DataVersion(counter=1, timestamp=1), DataVersion(counter=2, timestamp=1)


def topic(name: str, queues: int = 4, perm: int = 6) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


def registration(*topics: TopicConfig, broker: str = "broker-a", broker_id: int = 0, address: str = "10.0.0.1:10911",
                 version: DataVersion = V1, cluster: str = "C") -> Registration:  # fmt: skip
    return Registration(
        cluster=cluster, broker_name=broker, broker_id=broker_id, address=address, ha_address="10.0.0.1:10912",
        data_version=version, topics={topic.topic_name: topic for topic in topics},
    )  # fmt: skip


def test_a_registered_topic_is_found_and_an_unknown_one_is_not() -> None:
    table = RouteTable()
    assert table.register(registration(topic("T")), session=1, now=0.0) is None
    route = table.lookup("T")
    assert route is not None
    assert [queue.broker_name for queue in route.queue_datas] == ["broker-a"]
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert table.lookup("U") is None
    assert table.topics() == ["T"]
    assert table.topics_of_cluster("C") == ["T"]
    assert table.topics_of_cluster("D") == []


def test_topics_are_read_only_when_the_data_version_differs() -> None:
    table = RouteTable()
    table.register(registration(topic("T", 4)), 1, 0.0)
    table.register(registration(topic("T", 8)), 1, 1.0)
    route = table.lookup("T")
    assert route is not None and route.queue_datas[0].read_queue_nums == 4
    table.register(registration(topic("T", 8), version=V2), 1, 2.0)
    route = table.lookup("T")
    assert route is not None and route.queue_datas[0].read_queue_nums == 8


def test_an_incremental_registration_keeps_the_other_topics() -> None:
    table = RouteTable()
    table.register(registration(topic("A"), topic("B")), 1, 0.0)
    table.register(registration(topic("C"), version=V2), 1, 1.0)
    assert sorted(table.topics()) == ["A", "B", "C"]


def test_a_silent_broker_expires_after_its_time_and_not_before() -> None:
    table = RouteTable()
    table.register(registration(topic("T")), 1, 0.0)
    assert table.expire(EXPIRY_SECONDS - 0.1) == []
    table.register(registration(topic("T")), 1, 100.0)
    assert table.expire(EXPIRY_SECONDS + 0.1) == []
    assert table.expire(100.0 + EXPIRY_SECONDS) == ["10.0.0.1:10911"]
    assert table.lookup("T") is None
    assert table.clusters().broker_addr_table == {}


def test_a_broker_can_ask_for_another_time() -> None:
    table = RouteTable()
    table.register(dataclasses.replace(registration(topic("T")), timeout_s=10.0), 1, 0.0)
    assert table.expire(10.0) == ["10.0.0.1:10911"]


def test_a_closed_session_takes_its_broker_away_at_once_but_not_one_that_came_back_over_another() -> None:
    table = RouteTable()
    table.register(registration(topic("T")), 1, 0.0)
    assert table.session_closed(2) == []
    assert table.session_closed(1) == ["10.0.0.1:10911"]
    table.register(registration(topic("T")), 3, 0.0)
    table.register(registration(topic("T")), 4, 1.0)
    assert table.session_closed(3) == []
    assert table.lookup("T") is not None


def test_slaves_are_listed_but_do_not_declare_topics_and_learn_their_master() -> None:
    table = RouteTable()
    table.register(registration(topic("T")), 1, 0.0)
    slave = registration(topic("OnlyOnSlave"), broker_id=1, address="10.0.0.2:10911")
    assert table.register(slave, 2, 0.0) == "10.0.0.1:10911"
    assert table.ha_address("10.0.0.1:10911") == "10.0.0.1:10912"
    route = table.lookup("T")
    assert route is not None and route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    assert table.lookup("OnlyOnSlave") is None
    table.session_closed(1)
    route = table.lookup("T")
    assert route is not None and route.broker_datas[0].broker_addrs == {1: "10.0.0.2:10911"}


def test_a_broker_that_moves_to_another_address_replaces_its_old_self() -> None:
    table = RouteTable()
    table.register(registration(topic("T")), 1, 0.0)
    table.register(registration(topic("T"), address="10.0.0.9:10911", version=V2), 2, 0.0)
    assert table.session_closed(1) == []
    route = table.lookup("T")
    assert route is not None and route.broker_datas[0].broker_addrs == {0: "10.0.0.9:10911"}


def test_an_address_that_takes_another_name_leaves_the_old_one() -> None:
    table = RouteTable()
    table.register(registration(topic("T")), 1, 0.0)
    table.register(registration(topic("T"), broker="broker-b", version=V2), 1, 0.0)
    route = table.lookup("T")
    assert route is not None and [broker.broker_name for broker in route.broker_datas] == ["broker-b"]


def test_unregister_needs_the_right_name() -> None:
    table = RouteTable()
    table.register(registration(topic("T")), 1, 0.0)
    table.unregister("10.0.0.1:10911", "someone-else", 0)
    assert table.lookup("T") is not None
    table.unregister("10.0.0.1:10911", "broker-a", 0)
    assert table.lookup("T") is None


def test_a_topic_is_deleted_in_one_cluster_or_in_all_and_comes_back_with_a_newer_table() -> None:
    table = RouteTable()
    table.register(registration(topic("T")), 1, 0.0)
    table.register(registration(topic("T"), broker="broker-b", address="10.0.0.2:10911", cluster="D"), 2, 0.0)
    table.delete_topic("T", "D")
    route = table.lookup("T")
    assert route is not None and [queue.broker_name for queue in route.queue_datas] == ["broker-a"]
    table.delete_topic("T", None)
    assert table.lookup("T") is None
    table.register(registration(topic("T"), version=V2), 1, 1.0)
    assert table.lookup("T") is not None


def test_the_write_permission_of_a_broker_is_taken_and_given_back() -> None:
    table = RouteTable()
    table.register(registration(topic("A"), topic("B", perm=7)), 1, 0.0)
    assert table.set_writable("broker-a", False) == 2
    route = table.lookup("B")
    assert route is not None and route.queue_datas[0].perm == 5
    assert table.set_writable("broker-a", True) == 2
    assert table.set_writable("nobody", True) == 0


def test_a_sign_of_life_without_news_prolongs_the_registration() -> None:
    table = RouteTable()
    table.register(registration(topic("T")), 1, 0.0)
    assert table.data_version("10.0.0.1:10911") == V1
    table.touch("10.0.0.1:10911", 50.0)
    assert table.expire(EXPIRY_SECONDS) == []
    assert table.data_version("10.0.0.2:10911") is None


FIRST, OTHER = "10.0.0.1:10911", "10.0.0.9:10911"


def with_first(state_version: int | None = 0) -> RouteTable:
    table = RouteTable()
    version = DataVersion(counter=1, timestamp=1, state_version=state_version)
    table.register(registration(topic("T"), version=version), session=1, now=0.0)
    return table


def test_another_broker_of_the_name_and_id_of_a_living_one_is_its_rival() -> None:
    newcomer = registration(topic("T"), address=OTHER)
    assert with_first().rival(newcomer, session=2, now=ALIVE_SECONDS - 1) == FIRST


def test_who_comes_back_to_its_address_has_no_rival() -> None:
    assert with_first().rival(registration(topic("T")), session=2, now=1.0) is None


def test_other_names_and_ids_have_no_rival() -> None:
    table = with_first()
    assert table.rival(registration(broker="broker-b", address=OTHER), 2, 1.0) is None
    assert table.rival(registration(broker_id=1, address=OTHER), 2, 1.0) is None


def test_who_moves_has_no_rival_in_its_old_self() -> None:
    """Over the same connection, or after the old one was closed."""
    table = with_first()
    newcomer = registration(topic("T"), address=OTHER)
    assert table.rival(newcomer, session=1, now=1.0) is None
    table.session_closed(1)
    assert table.rival(newcomer, session=2, now=1.0) is None


def test_a_silent_broker_is_nobodys_rival_before_it_expires() -> None:
    """Its machine may have died without a word; brokers register at least once a minute."""
    table = with_first()
    newcomer = registration(topic("T"), address=OTHER)
    assert table.rival(newcomer, 2, ALIVE_SECONDS) is None and ALIVE_SECONDS < EXPIRY_SECONDS
    table.touch(FIRST, ALIVE_SECONDS)
    assert table.rival(newcomer, 2, ALIVE_SECONDS) == FIRST


def test_a_master_that_a_controller_chose_takes_the_place_of_the_one_before() -> None:
    """Apache 5: the state version is the epoch of the master; the old one may not know yet that it is none."""
    newer = DataVersion(counter=1, timestamp=1, state_version=2)
    table = with_first(state_version=1)
    assert table.rival(registration(address=OTHER, version=newer), 2, 1.0) is None
    assert table.rival(registration(address=OTHER, version=V1), 2, 1.0) == FIRST


def test_the_goodbye_of_a_stranger_takes_nobody_out() -> None:
    table = with_first()
    assert not table.unregister(OTHER, "broker-a", 0)
    assert table.lookup("T") is not None
    assert table.unregister(FIRST, "broker-a", 0)


def test_a_large_registration_ends_when_its_broker_leaves_or_registers_anew() -> None:
    """Topics are declared in steps, between which others have their turn."""
    many = registration(*(topic(f"T{number}") for number in range(4)))
    table = RouteTable()
    steps = table.registering(many, 1, 0.0)
    next(steps)
    assert table.data_version(many.address) == V1 and table.topics() == ["T0"]
    table.register(many, 1, 1.0)  # the same version: what runs goes on
    next(steps)
    assert table.topics() == ["T0", "T1"]
    table.register(registration(topic("N"), version=V2), 1, 2.0)
    assert list(steps) == [] and sorted(table.topics()) == ["N", "T0", "T1"]
    steps = table.registering(registration(topic("T2"), topic("T3"), version=V1), 1, 3.0)
    next(steps)
    table.session_closed(1)
    assert list(steps) == [] and table.topics() == []
