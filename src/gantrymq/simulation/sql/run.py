"""One seed, one run of gantrymq.sql: services run local transactions with messages while everything fails.

The same cluster, faults of brokers and judge as in ``simulation``; the services are in ``sql_services``, their
processes and databases in ``sql_cluster``, what happens to them in ``sql_faults``.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from gantrymq.errors import GantryError
from gantrymq.simulation import faults
from gantrymq.simulation.bit_flips import records_of
from gantrymq.simulation.database.errors import Error
from gantrymq.simulation.faults import CALM, Fault
from gantrymq.simulation.run import Plan, Result, break_things, mend, play, settled
from gantrymq.simulation.sql.cluster import SqlCluster
from gantrymq.simulation.sql.faults import OWN_FAULTS, OWN_FAULTS_AWAY
from gantrymq.simulation.sql.services import TOO_OLD_S, TOPICS
from gantrymq.simulation.stores import at_rest
from gantrymq.simulation.world.cluster import Cluster
from gantrymq.sql.transaction import local

TROUBLE_S: Final = 30.0
"""How long local transactions begin and things happen."""
PEACE_S: Final = 300.0
"""Afterwards, at most, until every half message is decided, and what was committed has arrived."""
AT_THE_START: Final = 2
BROKER_FAULTS: Final = ("power cut", "process killed", "rough network", "clock jump", "full disk", "failing sync")
SQL_FAULTS: Final = (*OWN_FAULTS, *BROKER_FAULTS)
DEFAULT: Final = Plan(orders=40, faults=SQL_FAULTS, fault_count=16)
"""``orders``: how many local transactions there are."""
AWAY_FAULTS: Final = (*SQL_FAULTS, *OWN_FAULTS_AWAY)
AWAY: Final = Plan(orders=40, faults=AWAY_FAULTS, fault_count=20)
"""With ``when_broker_is_away`` other than ``refuse``."""
EVERY_FAULT: Final = {**OWN_FAULTS, **OWN_FAULTS_AWAY}


def run(
    seed: int, plan: Plan = DEFAULT, *, log: bool = False, away: str = "refuse", ordered: bool = False, **settings: Any
) -> Result:
    """Play one seed of local transactions from its beginning to its end; see ``simulation.play``. ``away``:
    ``when_broker_is_away`` of the services. ``ordered``: messages have ordering keys. There is one broker then: when
    one of several is away, keys move to other queues."""
    if ordered:
        plan = replace(plan, brokers=1)
    with _short_day():
        return play(seed, plan, partial(_scenario, away=away, ordered=ordered), log=log, **settings)


@contextlib.contextmanager
def _short_day() -> Iterator[None]:
    """A local transaction may take a day, and no run is as long."""
    name = "DAY_S"
    before = getattr(local, name)
    setattr(local, name, TOO_OLD_S)
    try:
        yield
    finally:
        setattr(local, name, before)


async def _scenario(cluster: Cluster, plan: Plan, away: str, ordered: bool) -> None:
    await cluster.start_name_server()
    for host in cluster.brokers:
        await cluster.start_broker(host)
    world = SqlCluster(cluster, away, ordered=ordered)
    await world.create_tables()
    for _ in range(AT_THE_START):
        await world.start_service()
    await cluster.start_reader()
    customers = asyncio.ensure_future(_order(world, plan.orders))
    rng = random.Random(cluster.rng.randrange(1 << 62))
    await break_things(cluster, plan, rng, _faults_of(world), TROUBLE_S)
    await customers
    await _peace(world)
    world.check_limit()
    _note_stuck(cluster)
    at_rest(cluster)


def _note_stuck(cluster: Cluster) -> None:
    for host in cluster.brokers:
        open_halves = [] if host.broker is None else list(host.broker.coordinator.table)
        if open_halves:
            records = {record.place: record for record in records_of(host.disk, frozenset(TOPICS))}
            for half in open_halves:
                (name,) = records[half.log_offset].transactions
                cluster.history.add("stuck", tx=name)


def _faults_of(world: SqlCluster) -> dict[str, Fault]:
    def of_ours(name: str) -> Fault:
        return lambda _, rng: EVERY_FAULT[name](world, rng)

    return {name: of_ours(name) for name in EVERY_FAULT} | {name: faults.FAULTS[name] for name in BROKER_FAULTS}


async def _order(world: SqlCluster, count: int) -> None:
    """Calls of any process that lives, some one by one, some many at once; until none is under way any more."""
    rng = random.Random(world.rng.randrange(1 << 62))
    calls = []
    for number in range(count):
        if rng.random() < 0.5:
            await asyncio.sleep(rng.expovariate(count / 2 / TROUBLE_S))
        if not world.services:
            with contextlib.suppress(GantryError, Error):
                await world.start_service()
        if world.services:
            service = rng.choice(world.services)
            calls.append(service.node.start(service.order(number)))
    await asyncio.gather(*calls, return_exceptions=True)


async def _peace(world: SqlCluster) -> None:
    """Mend everything, have a process of the service, and wait until all is decided and has arrived."""
    cluster = world.cluster
    cluster.network.faults = CALM
    await mend(cluster)
    while True:
        with contextlib.suppress(GantryError, Error):
            await world.start_service()
            break
        await asyncio.sleep(1)
    end = cluster.loop.time() + PEACE_S
    while cluster.loop.time() < end and (world.ledger.outbox or not settled(cluster)):
        await asyncio.sleep(1)
    await asyncio.sleep(3)
