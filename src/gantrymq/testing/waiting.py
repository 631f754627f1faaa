"""Pauses in a simulated run."""

from __future__ import annotations

import random

from gantrymq.testing.cluster import BrokerHost, Cluster


async def wait(cluster: Cluster, seconds: float) -> None:
    done = cluster.loop.create_future()
    cluster.loop.call_later(seconds, done.set_result, None)
    await done


async def down_for_a_while(cluster: Cluster, host: BrokerHost, rng: random.Random) -> None:
    """A machine without its broker, until a supervisor starts it."""
    await wait(cluster, rng.uniform(0.2, 5))
    await cluster.revive(host)
