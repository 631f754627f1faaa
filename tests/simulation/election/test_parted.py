"""Lines that are cut for as long as it takes: whoever can be primary for the clients becomes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.simulation.election.run import LEASE_MS, SIZE, start_group
from gantrymq.simulation.pair.run import primary_of, until
from gantrymq.simulation.run import Plan, play
from gantrymq.simulation.world.cluster import BrokerHost, Cluster
from gantrymq.simulation.world.records import ETCD

LIMIT_S = 60.0
SOON_S = 2 * LEASE_MS / 1000
"""In virtual time, which is the same on every machine."""
SILENT_S = 20.0
Cut = Callable[[Cluster, BrokerHost, list[BrokerHost]], None]


def _both(cluster: Cluster, primary: BrokerHost, replicas: list[BrokerHost]) -> None:
    for replica in replicas:
        cluster.network.part(primary.address, replica.address)


def _to_replicas(cluster: Cluster, primary: BrokerHost, replicas: list[BrokerHost]) -> None:
    for replica in replicas:
        cluster.network.mute(primary.address, replica.address)


def _from_replicas(cluster: Cluster, primary: BrokerHost, replicas: list[BrokerHost]) -> None:
    for replica in replicas:
        cluster.network.mute(replica.address, primary.address)


def _in(scenario: Callable[[Cluster], object]) -> None:
    async def whole(cluster: Cluster, _plan: Plan) -> None:
        assert await start_group(cluster)
        await scenario(cluster)  # type: ignore[misc]

    result = play(7, Plan(brokers=SIZE), whole)
    assert result.good, result.errors


@pytest.mark.parametrize("cut", [_both, _to_replicas, _from_replicas])
def test_a_primary_that_reaches_etcd_and_no_replica_is_replaced(cut: Cut) -> None:
    async def scenario(cluster: Cluster) -> None:
        primary = primary_of(cluster)
        assert primary is not None
        replicas = [host for host in cluster.brokers if host is not primary]
        epoch = _epoch(cluster)
        cut(cluster, primary, replicas)
        assert await until(lambda: _epoch(cluster) != epoch, SOON_S)
        assert await until(lambda: primary_of(cluster) in replicas and _takes_writes(cluster), LIMIT_S)

    _in(scenario)


def test_a_primary_whose_replicas_are_off_stays_primary_and_takes_them_in_when_they_are_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        primary = primary_of(cluster)
        assert primary is not None and cluster.etcd is not None
        epoch = _epoch(cluster)
        replicas = [host for host in cluster.brokers if host is not primary]
        for host in replicas:
            cluster.kill_broker(host)
        assert not await until(lambda: _epoch(cluster) != epoch, SILENT_S), "it would change its role again and again"
        for host in replicas:
            await cluster.revive(host)
        assert await until(lambda: _takes_writes(cluster) and len(_set(cluster)) == SIZE, LIMIT_S)
        assert primary_of(cluster) is primary and _epoch(cluster) == epoch

    _in(scenario)


def test_a_primary_that_reaches_neither_replicas_nor_etcd_is_primary_no_more() -> None:
    async def scenario(cluster: Cluster) -> None:
        primary = primary_of(cluster)
        assert primary is not None
        _both(cluster, primary, [host for host in cluster.brokers if host is not primary])
        await until(lambda: False, 2 * LEASE_MS / 1000 / 3)
        cluster.network.part(primary.address, ETCD)
        assert await until(lambda: primary_of(cluster) is not primary, LIMIT_S)
        assert await until(lambda: primary_of(cluster) is not None and _takes_writes(cluster), LIMIT_S)

    _in(scenario)


def _takes_writes(cluster: Cluster) -> bool:
    primary = primary_of(cluster)
    broker = None if primary is None else primary.broker
    return broker is not None and broker.leads and broker.group is not None and broker.group.in_sync().available


def _epoch(cluster: Cluster) -> int:
    assert cluster.etcd is not None and cluster.etcd.held.record is not None
    return cluster.etcd.held.record.epoch


def _set(cluster: Cluster) -> frozenset[int]:
    assert cluster.etcd is not None and cluster.etcd.held.record is not None
    return cluster.etcd.held.record.in_sync
