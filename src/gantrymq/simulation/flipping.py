"""Flips a bit on the disk of a broker, and records it in the history."""

from __future__ import annotations

import random

from gantrymq.simulation.bit_flips import (
    Flip,
    durable_end,
    flip_in_derived,
    flip_in_log,
    flip_in_queue,
    flip_in_unsynced,
    records_of,
    turn_over,
)
from gantrymq.simulation.workload import PLAIN_TOPIC, TOPIC
from gantrymq.simulation.world.cluster import BrokerHost, Cluster

TOPICS = frozenset((TOPIC, PLAIN_TOPIC))
FLIPPED = "bit flipped"
"""So the names of these faults begin."""


async def flip_bit(cluster: Cluster, host: BrokerHost, rng: random.Random) -> bool:
    """Turn one bit over; whether the broker is down now."""
    if rng.random() < 0.25:
        records = records_of(host.disk, TOPICS)
        _happens(cluster, host, flip_in_log(host.disk, records, rng, host.opened_end))
        return False
    before = host.disk
    off = rng.random() < 0.5
    if off:
        cluster.cut_power(host)
    else:
        cluster.kill_broker(host)
    after = host.disk
    records = records_of(before, TOPICS)
    where = rng.random()
    if off and where < 0.25:
        flip = flip_in_unsynced(before, after, records, rng)
    elif where < 0.5:
        flip = flip_in_queue(after, records, rng)
    elif where < 0.65:
        flip = flip_in_derived(after, rng)
    else:
        flip = flip_in_log(after, records, rng, durable_end(after))
    _happens(cluster, host, flip)
    return True


def _happens(cluster: Cluster, host: BrokerHost, flip: Flip | None) -> None:
    if flip is None:
        return
    turn_over(host.disk, flip)
    kind = flip.record + ("" if flip.covered else " (no checksum)")
    cluster.injected[f"{FLIPPED}: {kind}"] += 1
    cluster.history.add("fault", what=f"{FLIPPED} at {flip.at} of {flip.path} on {host.name}: {kind}")
    for name in flip.transactions:
        cluster.history.add("flip", tx=name, broker=host.name, record=flip.record, covered=flip.covered)
