"""Pauses in a simulated run, and clocks that are set."""

from __future__ import annotations

import random
from typing import Final

from gantrymq.simulation.world.cluster import BrokerHost, Cluster

DAY_MS: Final = 86_400_000
STEPS_MS: Final = (-2 * DAY_MS, -3_600_000, -20_000, -900, 900, 20_000, 3_600_000, 2 * DAY_MS)
"""By how much a wall clock is set."""


async def wait(cluster: Cluster, seconds: float) -> None:
    done = cluster.loop.create_future()
    cluster.loop.call_later(seconds, done.set_result, None)
    await done


async def down_for_a_while(cluster: Cluster, host: BrokerHost, rng: random.Random) -> None:
    """A machine without its broker, until a supervisor starts it."""
    await wait(cluster, rng.uniform(0.2, 5))
    await cluster.revive(host)
