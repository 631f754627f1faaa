"""A pair whose power goes off at each disk operation: one workload, and one run of it for each operation.

| what goes off | then                                                                                          |
|---------------|-----------------------------------------------------------------------------------------------|
| primary       | it starts again; or the replica becomes primary, and the other one comes back as replica       |
| replica       | it starts again                                                                               |
| both          | both start again; or the replica alone does and becomes primary, and the other one comes back |

Or the process alone is killed there, and the power goes off later: what the next process found in the files was not
synced, and it has to know that. The killed one starts while the two do not reach each other, so that a primary holds
what its replica has not confirmed.

| killed  | then the power goes off at | and then                                                       |
|---------|----------------------------|----------------------------------------------------------------|
| primary | the primary                | it starts again                                                |
| primary | both                       | the replica alone starts and becomes primary                   |
| replica | both                       | the replica alone starts and becomes primary                   |

What was not synced is there or not, as the disk chooses. The services and the consumer are those of the other
simulations, and so are the rules by which the history is judged: nothing that was acknowledged is lost or comes twice.
"""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass
from typing import Final, Self

from gantrymq.simulation.pair.run import (
    begin,
    has_caught_up,
    make_peace,
    places_with_two_messages,
    take_its_place,
    until,
)
from gantrymq.simulation.run import Plan, Result, place_orders, play
from gantrymq.simulation.stores import at_rest
from gantrymq.simulation.world.cluster import BrokerHost, Cluster

WORKLOAD: Final = Plan(orders=8, fault_count=0, brokers=2)
SHORT_STEP: Final = 61
"""The short version tries one in so many operations."""
BACK_S: Final = 1.0
"""So long a machine is off."""
ALONE_S: Final = 2.0
"""So long a machine that was killed does not reach the other one."""
MARKED_S: Final = 6.0
"""Behind that, until the power goes off: what is in the files was called synced by then."""
LIMIT_S: Final = 120.0
"""A run in which the power does not go off ends by then."""


class Crash(enum.Enum):
    """What goes off, and what happens then."""

    PRIMARY = "primary"
    PRIMARY_REPLACED = "primary-replaced"
    REPLICA = "replica"
    BOTH = "both"
    BOTH_REPLACED = "both-replaced"
    PRIMARY_KILLED = "primary-killed"
    PRIMARY_KILLED_REPLACED = "primary-killed-replaced"
    REPLICA_KILLED_REPLACING = "replica-killed-replacing"

    @property
    def at_replica(self) -> bool:
        """Whether the operations of the replica's disk are counted."""
        return self in (Crash.REPLICA, Crash.REPLICA_KILLED_REPLACING)

    @property
    def is_of_both(self) -> bool:
        return self in (
            Crash.BOTH, Crash.BOTH_REPLACED, Crash.PRIMARY_KILLED_REPLACED, Crash.REPLICA_KILLED_REPLACING
        )  # fmt: skip

    @property
    def replaces(self) -> bool:
        """Whether the replica becomes primary."""
        return self in (
            Crash.PRIMARY_REPLACED, Crash.BOTH_REPLACED, Crash.PRIMARY_KILLED_REPLACED, Crash.REPLICA_KILLED_REPLACING
        )  # fmt: skip

    @property
    def kills_first(self) -> bool:
        """Whether the process is killed at the operation, and the power goes off later."""
        return self in (Crash.PRIMARY_KILLED, Crash.PRIMARY_KILLED_REPLACED, Crash.REPLICA_KILLED_REPLACING)


@dataclass(frozen=True, slots=True)
class Point:
    """One crash."""

    crash: Crash
    operation: int
    """So many operations of the disk come before it, counted from the first order."""

    def __str__(self) -> str:
        return f"{self.crash.value}:{self.operation}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError."""
        crash, _, operation = text.partition(":")
        return cls(Crash(crash), int(operation))


def points(seed: int, *, short: bool = False) -> list[Point]:
    """All crashes of the workload of a seed."""
    counted = {True: 0, False: 0}

    async def scenario(cluster: Cluster, plan: Plan) -> None:
        await begin(cluster)
        before = [host.disk.operations for host in cluster.brokers]
        await place_orders(cluster, plan.orders)
        await make_peace(cluster)
        counted[False], counted[True] = (
            host.disk.operations - first for host, first in zip(cluster.brokers, before, strict=True)
        )

    play(seed, WORKLOAD, scenario)
    step = SHORT_STEP if short else 1
    return [Point(crash, at) for crash in Crash for at in range(0, counted[crash.at_replica], step)]


def run(seed: int, point: Point) -> Result:
    """Play one crash."""

    async def scenario(cluster: Cluster, plan: Plan) -> None:
        await begin(cluster)
        customers = asyncio.ensure_future(place_orders(cluster, plan.orders))
        await _goes_off(cluster, point)
        await customers
        await make_peace(cluster)
        at_rest(cluster)
        cluster.errors += places_with_two_messages(cluster)

    return play(seed, WORKLOAD, scenario)


async def _goes_off(cluster: Cluster, point: Point) -> None:
    primary, replica = cluster.brokers
    counted = replica if point.crash.at_replica else primary
    await _operations_are_made(cluster, counted, point.operation)
    crash = point.crash
    if crash.kills_first:
        await _is_killed(cluster, counted)
    for host in (primary, replica) if crash.is_of_both else (counted,):
        cluster.cut_power(host)
    await asyncio.sleep(BACK_S)
    if crash.is_of_both and crash.replaces:
        await cluster.revive(replica)
    if crash.replaces:
        await take_its_place(cluster, primary, BACK_S)
    else:
        for host in cluster.brokers:
            await cluster.revive(host)


async def _is_killed(cluster: Cluster, host: BrokerHost) -> None:
    """Its process ends, the next one starts alone, and the two find each other again."""
    primary, replica = cluster.brokers
    cluster.kill_broker(host)
    cluster.network.part(primary.address, replica.address)
    await asyncio.sleep(BACK_S)
    await cluster.revive(host)
    await asyncio.sleep(ALONE_S)
    cluster.network.heal()
    await until(lambda: has_caught_up(cluster), LIMIT_S)
    await asyncio.sleep(MARKED_S)


async def _operations_are_made(cluster: Cluster, host: BrokerHost, count: int) -> None:
    """Return when the disk has made so many more operations, and is to make the next one: that one fails."""
    off = cluster.loop.create_future()

    def happened() -> None:
        if not off.done():
            off.set_result(None)

    host.disk.operations_left, host.disk.when_off = count, happened
    timer = cluster.loop.call_later(LIMIT_S, happened)
    await off
    timer.cancel()
