"""Clocks that step, in both directions, while a broker runs and while it is down."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from gantrymq.simulation.waits.errands import World
from gantrymq.simulation.world.cluster import BrokerHost, Cluster
from gantrymq.simulation.world.waiting import DAY_MS, STEPS_MS, wait

LARGEST_MS: Final = 10 * DAY_MS
STOPS: Final = ("stopped in order", "process killed", "power cut")


def step(cluster: Cluster, host: BrokerHost, rng: random.Random) -> None:
    """The wall clock of a broker's machine is set, and is wrong by another amount from now on."""
    host.skew_ms = max(-LARGEST_MS, min(LARGEST_MS, host.skew_ms + rng.choice(STEPS_MS)))
    if host.clock is not None:
        host.clock.skew_ms = host.skew_ms
    cluster.injected["clock stepped"] += 1
    cluster.history.add("clock", host=host.name, skew_ms=host.skew_ms)


async def _clock_step(world: World, rng: random.Random) -> None:
    step(world.cluster, world.host, rng)


async def _client_clock_step(world: World, rng: random.Random) -> None:
    """The clock of a client's machine; nothing that a broker keeps may follow it."""
    world.cluster.injected["client's clock stepped"] += 1
    rng.choice(world.clocks).skew_ms += rng.choice(STEPS_MS)


async def _restarted(world: World, rng: random.Random, *, steps: bool) -> None:
    cluster, host = world.cluster, world.host
    broker, node = host.broker, host.node
    if broker is None or node is None:
        return
    how = rng.choice(STOPS)
    world.running = None
    cluster.history.add("stopped", host=host.name)
    if how == STOPS[0]:
        cluster.injected[how] += 1
        await asyncio.wait([node.start(broker.close())])
        if host.node is not node:
            return  # somebody else was quicker
        cluster.stop(host)
        host.disk = host.disk.process_dies()
    elif how == STOPS[1]:
        cluster.kill_broker(host)
    else:
        cluster.cut_power(host)
    if steps:
        step(cluster, host, rng)
    await wait(cluster, rng.choice((0.1, rng.uniform(0.2, 15))))
    await cluster.revive(host)


WAIT_FAULTS: Final[dict[str, Callable[[World, random.Random], Awaitable[None]]]] = {
    "clock step": _clock_step,
    "client's clock step": _client_clock_step,
    "restart": partial(_restarted, steps=False),
    "restart with a step": partial(_restarted, steps=True),
}
