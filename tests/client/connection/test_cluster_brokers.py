"""A transaction producer without topics: which brokers it knows, and which get heartbeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gantrymq.aio import Admin, LocalTransactionState, Message, MessageView, Producer, TransactionProducer
from gantrymq.demo.ports import free_port
from tests.client.peer import cluster, run, until
from tests.client.real import broker, name_server

STRICT: dict[str, Any] = {"auto_create_topic_enable": False}


class Silent:
    """A listener that has nothing to answer."""

    async def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def test_every_broker_gets_heartbeats_also_one_that_comes_later(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            name_server() as address,
            broker(tmp_path / "a", address, broker_name="a") as first,
            TransactionProducer("tpg", name_servers=address, listener=Silent(), route_refresh_ms=100),
        ):
            await until(lambda: first.producers.has_producer("tpg"))
            async with broker(tmp_path / "b", address, broker_name="b") as second:
                await until(lambda: second.producers.has_producer("tpg"))

    run(test)


def test_other_producers_know_only_the_brokers_of_their_topics(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            name_server() as address,
            broker(tmp_path / "a", address, broker_name="a", broker_cluster_name="one", **STRICT) as first,
            broker(tmp_path / "b", address, broker_name="b", broker_cluster_name="two", **STRICT) as second,
            Admin(address) as admin,
        ):
            await admin.create_topic("T", 1, cluster="one")
            async with (
                TransactionProducer("tpg", name_servers=address, listener=Silent(), topics=["T"]) as producer,
                Producer("pg", name_servers=address) as plain,
            ):
                await until(lambda: first.producers.has_producer("tpg"))
                assert list(producer._brokers()) == [first.address] and not list(plain._brokers())
                assert not second.producers.has_producer("tpg")

    run(test)


def test_a_name_server_that_does_not_list_its_brokers_is_no_obstacle() -> None:
    async def test() -> None:
        async with cluster() as peers, TransactionProducer("tpg", name_servers=peers.address, listener=Silent()) as one:
            await one.send_in_transaction(Message("T", b"x"))
            assert [beat.producer_data_set[0].group_name for beat in peers.broker.beats] == ["tpg"]

    run(test)


@pytest.mark.parametrize("more", [{}, {"topics": ["T"]}])
def test_a_replica_knows_who_sent_what_is_open_before_it_is_the_primary(tmp_path: Path, more: dict[str, Any]) -> None:
    """Its connection and its routes may be lost with the primary: then another member would be asked too early."""

    async def test() -> None:
        async with (
            name_server() as address,
            broker(tmp_path / "a", address, broker_name="a", ha_listen_port=free_port()) as primary,
            broker(tmp_path / "b", address, broker_name="a", broker_role="SLAVE", broker_id=1) as replica,
            Admin(address) as admin,
        ):
            await admin.create_topic("T", 1)
            await until(lambda: replica.topics.get("T") is not None)
            async with TransactionProducer(
                "tpg", name_servers=address, listener=Silent(), route_refresh_ms=100, **more
            ) as producer:
                await until(lambda: replica.producers.has_producer("tpg"))
                assert next(iter(producer._brokers())) == primary.address, "replicas come last"

    run(test)
