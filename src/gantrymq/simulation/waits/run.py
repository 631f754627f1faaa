"""One seed, one run of waits: everything that can wait in a broker does, and clocks step while it does.

The same cluster and judge as in ``simulation``; what waits is in ``errands``, what happens in ``steps``, and how long
a wait may last in ``testing.wait_rules``.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from gantrymq.simulation.faults import Fault
from gantrymq.simulation.run import Plan, Result, break_things, play
from gantrymq.simulation.stores import at_rest
from gantrymq.simulation.waits.errands import Caller, World
from gantrymq.simulation.waits.steps import WAIT_FAULTS
from gantrymq.simulation.world.cluster import Cluster

TROUBLE_S: Final = 60.0
"""How long waits begin, and clocks step."""
PEACE_S: Final = 400.0
"""Afterwards, at most, until every wait is over. Clocks stay wrong."""
FAULTS: Final = tuple(WAIT_FAULTS)
DEFAULT: Final = Plan(orders=40, faults=FAULTS, fault_count=8, brokers=1)
"""``orders``: how many waits there are."""


def run(seed: int, plan: Plan = DEFAULT, *, log: bool = False, **settings: Any) -> Result:
    """Play one seed of waits from its beginning to its end; see ``simulation.play``."""
    return play(seed, plan, _scenario, log=log, **settings)


async def _scenario(cluster: Cluster, plan: Plan) -> None:
    world = World(cluster, random.Random(cluster.rng.randrange(1 << 62)))
    cluster.started = world.started
    await cluster.start_name_server()
    await cluster.start_broker(world.host)
    caller = Caller(world)
    await caller.node.start(caller.start())
    looking = asyncio.ensure_future(world.look())
    errands = [
        caller.node.start(_later(world.rng.uniform(0, TROUBLE_S), caller, number)) for number in range(plan.orders)
    ]
    rng = random.Random(cluster.rng.randrange(1 << 62))
    await break_things(cluster, plan, rng, {name: _fault(world, name) for name in FAULTS}, TROUBLE_S)
    end = cluster.loop.time() + PEACE_S
    while cluster.loop.time() < end and not (all(errand.done() for errand in errands) and not world.open):
        await asyncio.sleep(0.5)
    for errand in errands:
        if errand.done():
            errand.result()
    looking.cancel()
    await asyncio.wait([looking])
    if not looking.cancelled():
        looking.result()
    at_rest(cluster)


async def _later(seconds: float, caller: Caller, number: int) -> None:
    await asyncio.sleep(seconds)
    await caller.errand(number)


def _fault(world: World, name: str) -> Fault:
    return lambda _, rng: WAIT_FAULTS[name](world, rng)
