"""The faults of a simulation: what breaks and when. Each fault has a beginning and an end.

The figures count what really happened (a write that was refused, a connection that was cut), not what was planned.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from gantrymq.broker.roles import Role
from gantrymq.simulation.flipping import flip_bit
from gantrymq.simulation.world.cluster import BrokerHost, Cluster
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.simulation.world.network import NetworkFaults
from gantrymq.simulation.world.waiting import down_for_a_while, wait

ROUGH = NetworkFaults(lost=0.02, doubled=0.02, late=0.03, reset=0.01)
CALM = NetworkFaults()
OPERATIONS_UNTIL_CUT = 30


async def power_cut(cluster: Cluster, rng: random.Random) -> None:
    """In the middle of a disk operation, a random number of operations from now."""
    host = rng.choice(cluster.brokers)
    if host.node is None:
        return
    disk, cut = host.disk, cluster.loop.create_future()

    def off() -> None:
        if not cut.done():
            cut.set_result(None)

    disk.operations_left = rng.randrange(OPERATIONS_UNTIL_CUT)
    disk.when_off = off
    timer = cluster.loop.call_later(5.0, off)
    await cut
    timer.cancel()
    disk.when_off = None
    if host.disk is disk and host.node is not None:
        cluster.cut_power(host)
        await down_for_a_while(cluster, host, rng)


async def process_killed(cluster: Cluster, rng: random.Random) -> None:
    host = rng.choice(cluster.brokers)
    if host.node is not None:
        cluster.kill_broker(host)
        await down_for_a_while(cluster, host, rng)


async def service_killed(cluster: Cluster, rng: random.Random) -> None:
    service = rng.choice(cluster.services)
    if service.node.alive:
        cluster.kill(service.node)


async def parted(cluster: Cluster, rng: random.Random) -> None:
    """Two hosts do not reach each other for some seconds."""
    hosts = [host.address for host in cluster.brokers] + ["10.0.0.1"]
    others = [f"10.0.1.{number}" for number in range(1, len(cluster.services) + 2)] + ["10.0.2.1"]
    cluster.network.part(rng.choice(hosts), rng.choice(others))
    await wait(cluster, rng.uniform(0.5, 8))
    cluster.network.heal()


async def connections_broken(cluster: Cluster, rng: random.Random) -> None:
    """A service loses its connections and nothing else; it is alive, and back in no time."""
    service = rng.choice(cluster.services)
    if service.node.alive:
        cluster.network.break_connections(service.address)


async def rough_network(cluster: Cluster, rng: random.Random) -> None:
    """Frames are lost, doubled and late for some seconds."""
    cluster.network.faults = replace(ROUGH, latency_s=rng.choice((0.0005, 0.02, 0.3)))
    await wait(cluster, rng.uniform(1, 10))
    cluster.network.faults = CALM


async def clock_jump(cluster: Cluster, rng: random.Random) -> None:
    """A broker's clock steps while it runs, as NTP does it, and is wrong from then on."""
    host = rng.choice(cluster.brokers)
    host.skew_ms = rng.choice((-86_400_000, -60_000, -800, 800, 60_000, 3_600_000))
    if host.clock is not None and host.node is not None:
        cluster.injected["clock stepped"] += 1
        host.clock.skew_ms = host.skew_ms


async def full_disk(cluster: Cluster, rng: random.Random) -> None:
    disk = rng.choice(cluster.brokers).disk
    disk.free_bytes = rng.randrange(2000)
    await wait(cluster, rng.uniform(1, 6))
    disk.free_bytes = None


async def failing_sync(cluster: Cluster, rng: random.Random) -> None:
    """One fsync fails; the broker stops taking writes, and its operator starts it again."""
    host = rng.choice(cluster.brokers)
    if host.node is not None:
        host.disk.fail_next_sync(rng.choice(FILES))
        await _replaced(cluster, host, rng)


async def failing_write(cluster: Cluster, rng: random.Random) -> None:
    """One write fails half-way with EIO; otherwise as with a failing fsync."""
    host = rng.choice(cluster.brokers)
    if host.node is not None:
        host.disk.fail_next_write(rng.choice(FILES))
        await _replaced(cluster, host, rng)


async def _replaced(cluster: Cluster, host: BrokerHost, rng: random.Random) -> None:
    disk = host.disk
    await wait(cluster, rng.uniform(1, 4))
    if host.disk is disk and host.node is not None:
        cluster.cut_power(host)
        await down_for_a_while(cluster, host, rng)


async def slow_disks(cluster: Cluster, rng: random.Random) -> None:
    """Syncs take time, on some machines or on all: what is written, and even sent on, is not safe for as long."""
    slow = [host for host in cluster.brokers if rng.random() < 0.8]
    for host in slow:
        host.disk.sync_s = rng.uniform(0.01, 0.5)
        cluster.injected["disk slow"] += 1
    await wait(cluster, rng.uniform(2, 12))
    for host in slow:
        host.disk.sync_s = 0.0


async def bit_flip(cluster: Cluster, rng: random.Random) -> None:
    """A bit turns over: in old data while the broker runs, or while it is down; then it starts on that."""
    host = rng.choice(cluster.brokers)
    if host.node is not None and await flip_bit(cluster, host, rng):
        await down_for_a_while(cluster, host, rng)


async def lying_checkers(cluster: Cluster, rng: random.Random) -> None:
    """Checkers that say, once for a transaction, the opposite of its row."""
    cluster.chances.lie = 0.4
    await wait(cluster, rng.uniform(5, 20))
    cluster.chances.lie = 0.0


async def two_answers(cluster: Cluster, rng: random.Random) -> None:
    """A check is answered by two producers of the group at once."""
    cluster.chances.rival = 0.6
    await wait(cluster, rng.uniform(5, 20))
    cluster.chances.rival = 0.0


async def role_changed(cluster: Cluster, rng: random.Random) -> None:
    """A running broker becomes a replica, and primary again after a while."""
    host = rng.choice(cluster.brokers)
    node, broker = host.node, host.broker
    for role in (Role.REPLICA, Role.PRIMARY):
        if node is None or broker is None or host.node is not node or not broker.address:
            return
        change = node.start(broker.become(role))
        await asyncio.wait([change])
        if host.node is not node:
            return  # it was killed meanwhile
        if change.cancelled() or change.exception() is not None:
            cluster.kill_broker(host)
            await down_for_a_while(cluster, host, rng)
            return
        cluster.injected["role changed"] += 1
        if role is Role.REPLICA:
            await wait(cluster, rng.uniform(0.1, 5))


FILES = ("commitlog", "commitlog", "commitlog", "consumequeue", "config", "index", "gantry", "checkpoint")

Fault = Callable[[Cluster, random.Random], Awaitable[None]]

FAULTS: dict[str, Fault] = {
    "power cut": power_cut,
    "process killed": process_killed,
    "service killed": service_killed,
    "parted": parted,
    "connections broken": connections_broken,
    "rough network": rough_network,
    "clock jump": clock_jump,
    "full disk": full_disk,
    "failing sync": failing_sync,
    "failing write": failing_write,
    "bit flip": bit_flip,
    "lying checkers": lying_checkers,
    "two answers": two_answers,
    "role changed": role_changed,
    "slow disks": slow_disks,
}
USUAL = tuple(name for name in FAULTS if name not in ("role changed", "slow disks"))
"""Those of a run for which none are named: the seeds of other pages were played with them."""


def unharmed(disk: SimDisk) -> None:
    """No fault waits in it any more."""
    disk.operations_left = None
    disk.free_bytes = None
    disk.sync_s = 0.0
    disk.failures.sync = disk.failures.write = None
