"""What happens to the processes and databases of a simulation of gantrymq.sql."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.simulation.database.errors import Error
from gantrymq.simulation.sql.cluster import DATABASE, SqlCluster
from gantrymq.simulation.sql.services import KEPT_S, TOO_OLD_S
from gantrymq.simulation.world.waiting import STEPS_MS, wait

WRONG_MS: Final = round((TOO_OLD_S - 1) * 500)
"""Two clocks of processes that are wrong by this differ by less than what is a day for users."""


async def database_crashed(world: SqlCluster, rng: random.Random) -> None:
    """Its process ends, perhaps in the middle of a commit. It starts again with all that it had committed."""
    if world.database.running:
        if rng.random() < 0.5:
            world.database.crash_in_commit = True
            await wait(world.cluster, rng.uniform(0.1, 3))
            world.cluster.injected["database crashed in a commit"] += not world.database.running
        world.database.crash()
        world.cluster.injected["database crashed"] += 1
        await wait(world.cluster, rng.uniform(0.1, 5))
        world.database.start()


async def failed_over(world: SqlCluster, rng: random.Random) -> None:
    """A replica takes over. At first it is read-only and lacks the last commits, then it gets them and takes writes."""
    if world.database.running:
        world.cluster.injected["database failed over"] += 1
        world.database.crash()
        world.database.become_replica(rng.randint(0, 6))
        world.database.start()
        await wait(world.cluster, rng.uniform(0.5, 6))
        world.database.crash()  # so that no session is read-only for ever
        world.database.become_primary()
        world.database.start()


async def lines_broken(world: SqlCluster, rng: random.Random) -> None:
    """Connections to databases are lost before, behind and long before a statement is executed."""
    faults = world.faults
    faults.lost_before, faults.lost_after, faults.late = 0.03, 0.05, 0.05
    await wait(world.cluster, rng.uniform(2, 8))
    faults.lost_before = faults.lost_after = faults.late = 0.0


async def slow_database(world: SqlCluster, rng: random.Random) -> None:
    """Statements take up to half a second, and a commit twice as long."""
    world.database.statement_s = rng.choice((0.01, 0.1, 0.5))
    world.faults.latency_s = rng.choice((0.0005, 0.05, 0.2))
    await wait(world.cluster, rng.uniform(1, 6))
    world.database.statement_s = world.faults.latency_s = 0.0005


async def broker_gone(world: SqlCluster, rng: random.Random) -> None:
    """A broker is down for so long that outcome rows are deleted meanwhile."""
    host = rng.choice(world.cluster.brokers)
    if host.node is not None:
        world.cluster.kill_broker(host)
        await wait(world.cluster, rng.uniform(KEPT_S, 2 * KEPT_S))
        await world.cluster.revive(host)


async def member_killed(world: SqlCluster, rng: random.Random) -> None:
    living = [member for member in world.members if member.node.alive]
    if living:
        world.cluster.injected["process of the service killed"] += 1
        world.kill(rng.choice(living).node)


async def connections_broken(world: SqlCluster, rng: random.Random) -> None:
    """A process loses its connections to brokers and nothing else; it is back in no time."""
    living = [member for member in world.members if member.node.alive]
    if living:
        world.cluster.network.break_connections(rng.choice(living).address)


async def parted(world: SqlCluster, rng: random.Random) -> None:
    """A process does not reach a broker, the name server or the database for some seconds."""
    living = [member for member in world.members if member.node.alive]
    if living:
        places = [host.address for host in world.cluster.brokers] + ["10.0.0.1", DATABASE, DATABASE]
        world.cluster.network.part(rng.choice(places), rng.choice(living).address)
        await wait(world.cluster, rng.uniform(0.5, 8))
        world.cluster.network.heal()


async def member_started(world: SqlCluster, rng: random.Random) -> None:
    """One more process of the service, or one that only checks."""
    with contextlib.suppress(GantryError, Error):
        await (world.start_service() if rng.random() < 0.5 else world.start_checker())


async def wrong_database(world: SqlCluster, rng: random.Random) -> None:
    """A process of the group begins to check, with another database."""
    with contextlib.suppress(GantryError, Error):
        await world.start_checker(wrong_database=True)
        world.cluster.injected["checker with the wrong database"] += 1


async def service_clock_stepped(world: SqlCluster, rng: random.Random) -> None:
    """The wall clock of a process's machine is set, in one direction or the other. Clocks of processes may differ by a
    day; see ``gantrymq.sql.upkeep.cleaning``."""
    living = [member for member in world.members if member.node.alive]
    if living:
        rng.choice(living).clock.skew_ms = rng.randint(-WRONG_MS, WRONG_MS)
        world.cluster.injected["clock of a service stepped"] += 1


async def database_clock_stepped(world: SqlCluster, rng: random.Random) -> None:
    """That of the databases, which may be wrong by any time: it makes no ids."""
    world.database_skew_ms = rng.choice(STEPS_MS)
    world.cluster.injected["clock of the database stepped"] += 1
    await wait(world.cluster, rng.uniform(1, 10))
    if rng.random() < 0.5:
        world.database_skew_ms = 0
        world.cluster.injected["clock of the database stepped"] += 1


async def cleaned(world: SqlCluster, rng: random.Random) -> None:
    """Old outcome rows are deleted, now and some more times."""
    for _ in range(rng.randint(1, 15)):
        await world.clean()
        await wait(world.cluster, rng.uniform(1, 5))


OWN_FAULTS: Final[dict[str, Callable[[SqlCluster, random.Random], Awaitable[None]]]] = {
    "database crashed": database_crashed,
    "failed over": failed_over,
    "lines broken": lines_broken,
    "slow database": slow_database,
    "broker gone": broker_gone,
    "member killed": member_killed,
    "connections broken": connections_broken,
    "parted": parted,
    "member started": member_started,
    "wrong database": wrong_database,
    "rows cleaned": cleaned,
    "clock of a service": service_clock_stepped,
    "clock of the database": database_clock_stepped,
}


async def brokers_away(world: SqlCluster, rng: random.Random) -> None:
    """All brokers are down for some seconds, at the same time."""
    down = [host for host in world.cluster.brokers if host.node is not None]
    world.cluster.injected["all brokers away"] += 1
    for host in down:
        world.cluster.kill_broker(host)
    await wait(world.cluster, rng.uniform(0.3, 12))
    for host in down:
        await world.cluster.revive(host)


OWN_FAULTS_AWAY: Final[dict[str, Callable[[SqlCluster, random.Random], Awaitable[None]]]] = {
    "brokers away": brokers_away,
    "brokers away again": brokers_away,
}
"""Further ones for services that go on selling meanwhile."""
