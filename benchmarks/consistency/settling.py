"""Reads the four databases and what is on its way between them, and waits until they agree."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Final

import uvloop

from benchmarks.consistency.checker import Faults, Snapshot, faults
from benchmarks.consistency.setting import DOWNSTREAM, ORDERS, OUTBOX, OUTBOX_WAY, TOPIC
from benchmarks.consistency.two_phase import PREFIX
from benchmarks.consistency.world import World
from gantrymq.aio import Admin

POLL_S: Final = 0.25
QUIET_S: Final = 22.0
"""Nothing is on its way when nothing is in doubt and nothing has changed for so long. Consumers share out the queues of
a member that died within 20 s."""


def snapshot(world: World, way: str, first: int) -> Snapshot:
    """Of the orders from ``first`` on. What is in doubt is read first: it may be settled in between, and not the other
    way round."""
    prepared, others = _prepared(world), _on_the_way(world, way)
    paid = frozenset(
        row[0] for row in world.rows(ORDERS, "SELECT id FROM orders WHERE state = 'paid' AND id >= %s", first)
    )
    effects = {
        name: dict(world.rows(name, "SELECT order_id, count(*) FROM ledger WHERE order_id >= %s GROUP BY 1", first))
        for name in DOWNSTREAM
    }
    ours = (frozenset(order for order in orders if order >= first) for orders in (prepared | others, prepared))
    return Snapshot(paid, effects, *ours)


def _prepared(world: World) -> set[int]:
    gids = world.rows(ORDERS, "SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, %s)", PREFIX)
    return {int(gid.split("-")[1]) for (gid,) in gids}


def _on_the_way(world: World, way: str) -> set[int]:
    """Orders with a row of the outbox or an open half message."""
    found: set[int] = set()
    if way == OUTBOX_WAY:
        found = {json.loads(payload)["order"] for (payload,) in world.rows(ORDERS, f"SELECT payload FROM {OUTBOX}")}
    found |= uvloop.run(_open_halves(world))
    return found


async def _open_halves(world: World) -> set[int]:
    async with Admin(name_servers=world.setting.name_server) as admin:
        places = await admin.transactions.undecided()
    halves = (place.transaction.half for place in places)
    return {int(half.keys) for half in halves if half.real_topic == TOPIC}


@dataclass(frozen=True, slots=True)
class Settled:
    """How it ended."""

    seconds: float
    """Until nothing was wrong any more; how long was waited, when something is."""
    late: Faults
    """What was wrong when the time that was promised was over."""
    final: Faults
    """What was still wrong when nothing was on its way any more, or when nobody waited longer."""

    def counts(self) -> dict[str, int]:
        """Orders that are settled late, too, count as stuck: they were, for the time that was promised."""
        late = self.late.lost | self.late.stuck | self.late.phantom
        stuck = (late | self.final.stuck) - self.final.lost - self.final.phantom
        return {**self.final.counts(), "stuck": len(stuck)}


def settle(world: World, way: str, first: int, promised_s: float, limit_s: float) -> Settled:
    """Wait until nothing is wrong; ``limit_s`` at most, and not longer when nothing is on its way any more."""
    begun = changed = time.monotonic()
    before: Snapshot | None = None
    late: Faults | None = None
    while True:
        now = snapshot(world, way, first)
        wrong, waited = faults(now), time.monotonic() - begun
        if late is None and (not wrong or waited >= promised_s):
            late = wrong
        if now != before:
            before, changed = now, time.monotonic()
        quiet = not now.in_doubt and time.monotonic() - changed > QUIET_S
        if not wrong or quiet or waited >= limit_s:
            return Settled(waited, wrong if late is None else late, wrong)
        time.sleep(POLL_S)
