"""``gantry cluster failover``: a replica takes the place of its primary while clients send."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

from gantrymq.admin import Admin
from gantrymq.admin.brokers import BrokerPlace
from gantrymq.admin.failover import carry_out, planned
from gantrymq.aio import Message, Producer
from gantrymq.broker.broker import Broker
from gantrymq.broker.roles import Role
from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError, GantryError, Unreachable
from gantrymq.runtime.clock import SystemClock
from tests.broker.replication.test_pair import log_of, replica_of
from tests.support.brokers import Cluster, cluster, until

PAIR: dict[str, Any] = {"flush_disk_type": "SYNC_FLUSH", "slave_timeout": 10_000}


async def sent_meanwhile(name_servers: str, stop: asyncio.Event, sent: list[bytes]) -> int:
    """Bodies that were acknowledged; how many sends failed in all."""
    failed = 0
    async with Producer("PG", name_servers=name_servers, send_timeout_ms=5_000) as producer:
        number = 0
        while not stop.is_set():
            body = b"%d" % number
            number += 1
            try:
                result = await producer.send(Message("orders", body))
            except GantryError:
                failed += 1
                await asyncio.sleep(0.01)
            else:
                if result.status.name == "SEND_OK":
                    sent.append(body)
    return failed


def follows(broker: Broker) -> bool:
    following = broker.operations.administration.figures.replication().following
    return following is not None and following.follows


def bodies(broker: Broker) -> Counter[bytes]:
    return Counter(record.body for record in broker.store.scan(0) if record.topic == "orders")


@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER"])
def test_there_and_back_under_load_nothing_acknowledged_is_lost(tmp_path: Path, role: str) -> None:
    async def work() -> None:
        ports = [free_port(), free_port()]
        async with cluster(
            tmp_path / "a", with_name_server=True, ha_listen_port=ports[0], broker_role=role, **PAIR
        ) as primary:
            assert primary.name_server is not None
            names = primary.name_server.address
            await primary.create_topic("orders", queues=2)
            async with (
                replica_of(primary, tmp_path / "b", ha_listen_port=ports[1], slave_timeout=10_000) as replica,
                Admin(names) as admin,
            ):
                await until(lambda: replica.store.written == primary.broker.store.written)
                await until(lambda: replica.topics.get("orders") is not None and follows(replica))
                stop, sent, said = asyncio.Event(), list[bytes](), list[str]()
                load = asyncio.create_task(sent_meanwhile(names, stop, sent))
                await until(lambda: len(sent) > 20)
                for new, old in ((replica, primary.broker), (primary.broker, replica)):
                    plan = await planned(admin.brokers, "broker-a", None, forced=False)
                    assert plan.target.address == new.address and plan.role == role
                    await carry_out(admin.brokers, plan, said.append, SystemClock())
                    assert (new.role, old.role) == (Role.PRIMARY, Role.REPLICA)
                    before = len(sent)
                    await until(lambda before=before: len(sent) > before + 20)  # type: ignore[misc]
                    await until(lambda old=old: follows(old))  # type: ignore[misc]
                stop.set()
                await load
                await until(lambda: log_of(replica) == log_of(primary.broker))
                found = bodies(primary.broker)
                assert [body for body in sent if found[body] != 1] == []
                assert len(said) == 4

    asyncio.run(work())


def test_a_forced_one_needs_a_primary_that_is_gone(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary:
            assert primary.name_server is not None
            await primary.create_topic("orders", queues=1)
            async with (
                replica_of(primary, tmp_path / "b", ha_listen_port=free_port()) as replica,
                Admin(primary.name_server.address) as admin,
            ):
                await primary.sent("orders", b"1")
                await until(lambda: replica.store.written == primary.broker.store.written)
                with pytest.raises(ConfigError, match="leave out --force"):
                    await planned(admin.brokers, "broker-a", None, forced=True)
                with pytest.raises(ConfigError, match="no replica with brokerId 7"):
                    await planned(admin.brokers, "broker-a", 7, forced=False)
                with pytest.raises(ConfigError, match="know no broker 'broker-x'"):
                    await planned(admin.brokers, "broker-x", None, forced=False)
                await primary.broker.close()
                with pytest.raises(ConfigError, match="use --force"):
                    await planned(admin.brokers, "broker-a", None, forced=False)
                plan = await planned(admin.brokers, "broker-a", None, forced=True)
                await carry_out(admin.brokers, plan, lambda _text: None, SystemClock())
                assert replica.role is Role.PRIMARY
                assert (await Cluster(replica, primary.client).sent("orders", b"2")).queue_offset == 1

    asyncio.run(work())


def test_a_replica_that_is_silent_stops_no_failover_and_one_that_breaks_off_says_what_to_do(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary:
            assert primary.name_server is not None
            async with (
                replica_of(primary, tmp_path / "b", ha_listen_port=free_port()) as replica,
                Admin(primary.name_server.address) as admin,
            ):
                await until(lambda: follows(replica))
                places = await admin.brokers.places()
                gone = BrokerPlace(cluster="DefaultCluster", name="broker-a", broker_id=7, address="127.0.0.1:1")
                known = AsyncMock(return_value=[*places, gone])
                with patch.object(admin.brokers, "places", known):
                    plan = await planned(admin.brokers, "broker-a", None, forced=False)
                    assert plan.target.address == replica.address and plan.spare_id == 2
                    with pytest.raises(Unreachable):
                        await planned(admin.brokers, "broker-a", 7, forced=False)
                said = list[str]()
                with pytest.raises(GantryError):
                    await carry_out(admin.brokers, replace(plan, target=gone, primary=None), said.append, SystemClock())
                assert "`gantry cluster replicas` shows who is what" in said[-1]

    asyncio.run(work())


def test_a_replica_that_nobody_could_follow_is_refused_beforehand(tmp_path: Path) -> None:
    async def work() -> None:
        port = free_port()
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=port) as primary:
            assert primary.name_server is not None
            async with Admin(primary.name_server.address) as admin:
                async with replica_of(primary, tmp_path / "b") as replica:
                    await until(lambda: follows(replica))
                    with pytest.raises(ConfigError, match="has no haListenPort"):
                        await planned(admin.brokers, "broker-a", None, forced=False)
                fixed = {"ha_listen_port": free_port(), "ha_master_address": f"127.0.0.1:{port}"}
                async with replica_of(primary, tmp_path / "b", **fixed) as replica:
                    await until(lambda: follows(replica))
                    with pytest.raises(ConfigError, match="haMasterAddress, which names one primary for ever"):
                        await planned(admin.brokers, "broker-a", None, forced=False)
                assert primary.broker.role is Role.PRIMARY

    asyncio.run(work())
