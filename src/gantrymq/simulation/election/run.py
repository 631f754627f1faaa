"""One seed, one run: three brokers elect their primary, machines, lines and etcd fail, and nobody helps.

A machine that went off comes back, and an operator names the next primary; that is all that people do. Services and
consumer are those of the other simulations, and so are the rules by which the history is judged.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final

from gantrymq.broker.replication.election.record_store import NEVER, Held
from gantrymq.simulation.faults import (
    CALM,
    Fault,
    clock_jump,
    connections_broken,
    rough_network,
    service_killed,
    slow_disks,
    unharmed,
)  # fmt: skip
from gantrymq.simulation.pair.run import (
    PEACE_S,
    failover,
    log_of,
    off_and_on,
    places_with_two_messages,
    primary_of,
    settled,
    slow_network,
    start_service,
    state_of,
    until,
)  # fmt: skip
from gantrymq.simulation.run import SERVICES, Plan, Result, break_things, place_orders, play
from gantrymq.simulation.stores import at_rest
from gantrymq.simulation.workload import IMMUNITY_MS
from gantrymq.simulation.world.cluster import BrokerHost, Cluster
from gantrymq.simulation.world.network import HA_PORT
from gantrymq.simulation.world.records import ETCD, SimEtcd
from gantrymq.simulation.world.waiting import wait

NAME: Final = "broker-0"
SIZE: Final = 3
LEASE_MS: Final = 3_000
EMPTY_FIRST: Final = "empty one first"
"""It takes most of a run, so it is played when it is named."""
TROUBLE_S: Final = 60.0
"""Longer than elsewhere: an election alone takes seconds."""


def settings(number: int) -> dict[str, Any]:
    """Of one machine. ``number``: brokerId."""
    return {
        "broker_name": NAME, "broker_role": "SLAVE", "broker_id": number, "ha_listen_port": HA_PORT,
        "slave_timeout": 2000, "register_name_server_period": 10_000, "primary_lease": LEASE_MS,
        "ha_max_time_slave_not_catchup": 5_000,
        "decisive_check_grace_at_start": IMMUNITY_MS,  # who is asked early is what the other simulations look at
    }  # fmt: skip


async def machine_lost(cluster: Cluster, rng: random.Random) -> None:
    """Its process is killed, or its power goes off."""
    await _lose(cluster, rng.choice(cluster.brokers), rng)


async def primary_lost(cluster: Cluster, rng: random.Random) -> None:
    primary = primary_of(cluster)
    if primary is not None:
        await _lose(cluster, primary, rng)


async def all_lost(cluster: Cluster, rng: random.Random) -> None:
    """The power of the room."""
    await asyncio.gather(*(_lose(cluster, host, rng) for host in list(cluster.brokers)))


async def _lose(cluster: Cluster, host: BrokerHost, rng: random.Random) -> None:
    if host.node is not None:
        await off_and_on(cluster, host, rng)


async def disk_lost(cluster: Cluster, rng: random.Random) -> None:
    """A machine comes back with an empty disk, as long as two others have everything. Often the primary is lost
    then."""
    primary = primary_of(cluster)
    if primary is None or not _all_have_everything(cluster, primary):
        return
    host = rng.choice(cluster.brokers)
    cluster.busy = True
    try:
        cluster.kill_broker(host)
        _empty(cluster, host, rng)
        await wait(cluster, rng.uniform(0.2, 4))
        await cluster.revive(host)
        if host is not primary and rng.random() < 0.7:  # whoever has everything is needed now
            await wait(cluster, rng.uniform(0, 0.3))
            await _lose(cluster, primary, rng)
        await wait(cluster, 20)
    finally:
        cluster.busy = False


async def empty_one_first(cluster: Cluster, rng: random.Random) -> None:
    """The power of the room goes off. One machine is back first, with an empty disk: it must wait for the others."""
    primary = primary_of(cluster)
    if primary is None or not _all_have_everything(cluster, primary):
        return
    host = rng.choice(cluster.brokers)
    cluster.busy = True
    try:
        for one in cluster.brokers:
            cluster.cut_power(one)
        _empty(cluster, host, rng)
        await cluster.revive(host)
        await wait(cluster, rng.uniform(2, 4) * LEASE_MS / 1000)
        await asyncio.gather(*(cluster.revive(one) for one in cluster.brokers if one is not host))
        await wait(cluster, 20)
    finally:
        cluster.busy = False


def _all_have_everything(cluster: Cluster, primary: BrokerHost) -> bool:
    """Whether one of them may lose its disk."""
    leads = None if primary.broker is None else primary.broker.group
    if leads is None or leads.leadership.record is None or len(leads.leadership.record.in_sync) < SIZE:
        return False
    return not cluster.busy and all(host.node is not None for host in cluster.brokers)


def _empty(cluster: Cluster, host: BrokerHost, rng: random.Random) -> None:
    """A machine that is off gets another disk."""
    cluster.injected["disk lost"] += 1
    host.disk = type(host.disk)(rng.randrange(1 << 32))
    host.disk.watch(cluster.injected)
    host.disk.now_ms = cluster.brokers[0].disk.now_ms


async def handed_over(cluster: Cluster, rng: random.Random) -> None:
    """An operator names the next primary; often one of the three, or the line to etcd, is lost meanwhile."""
    operator = asyncio.ensure_future(failover(cluster, NAME, forced=False))
    if rng.random() < 0.5:
        await wait(cluster, rng.uniform(0, 0.6))
        await rng.choice((machine_lost, primary_lost, parted_from_etcd, machines_parted))(cluster, rng)
    if await operator:
        cluster.injected["primary handed over"] += 1


async def etcd_away(cluster: Cluster, rng: random.Random) -> None:
    etcd = _etcd(cluster)
    etcd.away = True
    await wait(cluster, rng.uniform(0.5, 15))
    etcd.away = False


async def etcd_forgets(cluster: Cluster, rng: random.Random) -> None:
    """Its data is gone. The primary writes the record anew; if it is lost as well, people bring a copy back."""
    etcd = _etcd(cluster)
    before = etcd.held
    if primary_of(cluster) is None or before.record is None or len(before.record.in_sync) < SIZE or cluster.busy:
        return
    cluster.busy = True  # not while a disk is lost: whoever has lost everything cannot know that there was something
    try:
        cluster.injected["record forgotten"] += 1
        etcd.held = Held(None, NEVER)
        await wait(cluster, rng.uniform(2, 20))
        if etcd.held.record is None:
            etcd.held = Held(before.record, before.revision + 1_000_000)
    finally:
        cluster.busy = False


async def parted_from_etcd(cluster: Cluster, rng: random.Random) -> None:
    """The primary, or another broker, reaches everybody but etcd."""
    host = primary_of(cluster) if rng.random() < 0.6 else rng.choice(cluster.brokers)
    if host is not None:
        await _parted(cluster, rng, [(host.address, ETCD)])


async def primary_alone(cluster: Cluster, rng: random.Random) -> None:
    """The primary reaches one or none of the others; clients reach it, and etcd may or may not."""
    primary = primary_of(cluster)
    if primary is not None:
        others = [other for other in cluster.brokers if other is not primary]
        lines = [(primary.address, other.address) for other in rng.sample(others, rng.choice((1, 1, 2)))]
        await _parted(cluster, rng, lines + [(primary.address, ETCD)] * (rng.random() < 0.6))


async def machines_parted(cluster: Cluster, rng: random.Random) -> None:
    """Two of the three do not reach each other."""
    one, other = rng.sample(cluster.brokers, 2)
    await _parted(cluster, rng, [(one.address, other.address)])


async def one_direction(cluster: Cluster, rng: random.Random) -> None:
    """What one machine sends does not arrive at another one, or at etcd."""
    one, other = rng.sample([*(host.address for host in cluster.brokers), ETCD], 2)
    cluster.network.mute(one, other)
    await wait(cluster, rng.uniform(0.5, 12))
    cluster.network.heal()


async def clients_left_behind(cluster: Cluster, rng: random.Random) -> None:
    """Services and consumer reach the primary, and none of the other brokers; the primary reaches no other machine."""
    primary = primary_of(cluster)
    if primary is None:
        return
    others = [host.address for host in cluster.brokers if host is not primary]
    clients = [service.address for service in cluster.services] + ["10.0.2.1"]
    lines = [(client, other) for client in clients for other in others]
    lines += [(primary.address, other) for other in [*others, ETCD]]
    await _parted(cluster, rng, lines)


async def _parted(cluster: Cluster, rng: random.Random, lines: list[tuple[str, str]]) -> None:
    for one, other in lines:
        cluster.network.part(one, other)
    cluster.injected["lines parted"] += len(lines)
    await wait(cluster, rng.uniform(0.5, 12))
    cluster.network.heal()


ELECTION_FAULTS: Final[Mapping[str, Fault]] = {
    "machine lost": machine_lost,
    "primary lost": primary_lost,
    "all lost": all_lost,
    "disk lost": disk_lost,
    "handed over": handed_over,
    "etcd away": etcd_away,
    "etcd forgets": etcd_forgets,
    "parted from etcd": parted_from_etcd,
    "primary alone": primary_alone,
    "machines parted": machines_parted,
    "one direction": one_direction,
    "clients left behind": clients_left_behind,
    "clock stepped": clock_jump,
    "slow network": slow_network,
    "slow disks": slow_disks,
    "rough network": rough_network,
    "connections broken": connections_broken,
    "service killed": service_killed,
    EMPTY_FIRST: empty_one_first,
}
OFTEN: Final = tuple(name for name in ELECTION_FAULTS if name != EMPTY_FIRST)
DEFAULT: Final = Plan(orders=30, faults=OFTEN, fault_count=10, brokers=SIZE)


def run(seed: int, plan: Plan = DEFAULT, *, log: bool = False) -> Result:
    """Play one seed."""
    return play(seed, plan, _scenario, log=log)


def _etcd(cluster: Cluster) -> SimEtcd:
    assert cluster.etcd is not None
    return cluster.etcd


async def start_group(cluster: Cluster) -> bool:
    """Whether there is a primary that everybody follows."""
    cluster.etcd = SimEtcd(cluster.network, random.Random(cluster.rng.randrange(1 << 62)))
    for number, host in enumerate(cluster.brokers, 1):
        host.settings = settings(number)
    await cluster.start_name_server()
    for host in cluster.brokers:
        await cluster.start_broker(host)
    if not await until(lambda: _complete(cluster), 60):
        cluster.errors.append(f"no primary with all members: {state_of(cluster)}")
        return False
    return True


async def _scenario(cluster: Cluster, plan: Plan) -> None:
    if not await start_group(cluster):
        return
    for _ in range(SERVICES):
        await cluster.start_service()
    await cluster.start_reader()
    customers = asyncio.ensure_future(place_orders(cluster, plan.orders))
    rng = random.Random(cluster.rng.randrange(1 << 62))
    await break_things(cluster, plan, rng, ELECTION_FAULTS, TROUBLE_S)
    await customers
    await _make_peace(cluster)
    at_rest(cluster)
    cluster.errors += places_with_two_messages(cluster)
    cluster.injected["epochs"] += _etcd(cluster).held.record.epoch  # type: ignore[union-attr]


def _complete(cluster: Cluster) -> bool:
    """Whether there is a primary that everybody follows."""
    record = _etcd(cluster).held.record
    return primary_of(cluster) is not None and record is not None and len(record.in_sync) >= SIZE


async def _make_peace(cluster: Cluster) -> None:
    """All machines run, and nothing is open or on its way."""
    cluster.chances.unknown = 0.0
    cluster.network.heal()
    cluster.network.faults = CALM
    _etcd(cluster).away = False
    for host in cluster.brokers:
        unharmed(host.disk)
        await cluster.revive(host)
    if not await until(lambda: _complete(cluster), PEACE_S):
        cluster.errors.append(f"no primary with all members: {state_of(cluster)}")
        return
    await start_service(cluster)
    if not await until(lambda: settled(cluster), PEACE_S):
        cluster.errors.append(f"not settled: {state_of(cluster)}")
    elif len({log_of(host) for host in cluster.brokers}) > 1:
        cluster.errors.append(f"the logs differ: {state_of(cluster)}")
    await asyncio.sleep(3)
