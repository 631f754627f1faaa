"""Kills: which orders are lost, doubled, phantom or stuck when a program dies in the middle of its work.

A round has one load. Its victim gets a SIGKILL (PostgreSQL: an immediate shutdown) at a moment from the seed, and is
started again a little later. When all rounds of a victim are over, the databases are compared.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.consistency import settling
from benchmarks.consistency.setting import DOWNSTREAM, OUTBOX_WAY, TWO_PHASE
from benchmarks.consistency.world import LOAD_SLACK_S, World

CLIENTS: Final = 8
ORDERS_A_ROUND: Final = 20_000
VICTIMS: Final = ("order service", "relay", "broker", "consumer", "PostgreSQL")
DOWN_S: Final = (0.2, 0.6)
"""How long the victim is away."""


@dataclass(frozen=True, slots=True)
class Kills:
    """How much is killed, and how long is waited."""

    rounds: int
    seconds: float
    """Of the load of a round."""
    promised_s: float
    """What is not settled by then is stuck."""
    limit_s: float
    seed: int


def victims(way: str) -> list[str]:
    """What can die in the middle of this way's work."""
    found = ["order service"]
    if way == OUTBOX_WAY:
        found.append("relay")
    if way != TWO_PHASE:
        found += ["broker", "consumer"]
    return [*found, "PostgreSQL"]


def measure(world: World, way: str, victim: str, plan: Kills) -> dict[str, Any]:
    """All rounds of one victim."""
    rng = random.Random(f"{plan.seed} {way} {victim}")
    world.start_service(way)
    first, errors = 0, 0
    for _ in range(plan.rounds):
        number, seen = _round(world, way, victim, plan.seconds, rng)
        first = first or number
        errors += sum(seen["errors"].values()) if seen else 0
    settled = settling.settle(world, way, first, plan.promised_s, plan.limit_s)
    after = settling.snapshot(world, way, first)
    again = sum(world.rows(name, "SELECT count(*) FROM again WHERE order_id >= %s", first)[0][0] for name in DOWNSTREAM)
    return {
        "way": way, "victim": victim, "kills": plan.rounds, "paid": len(after.paid), **settled.counts(),
        "kept_away": again, "prepared_left": world.prepared(), "settled_s": round(settled.seconds, 1),
        "refused_calls": errors,
    }  # fmt: skip


def _round(
    world: World, way: str, victim: str, seconds: float, rng: random.Random
) -> tuple[int, dict[str, Any] | None]:
    first, service = world.new_orders(ORDERS_A_ROUND), world.start_service(way)
    service.ask(first=first, count=ORDERS_A_ROUND, clients=CLIENTS, seconds=seconds, rate=0)
    at, away = rng.uniform(0.2, seconds - 0.2), rng.uniform(*DOWN_S)
    time.sleep(at)
    kill, start = _how(world, way, victim, rng)
    kill()
    time.sleep(away)
    start()
    if victim == "order service":
        return first, None
    return first, service.answer(seconds + LOAD_SLACK_S)


def _how(world: World, way: str, victim: str, rng: random.Random) -> tuple[Callable[[], object], Callable[[], object]]:
    if victim == "PostgreSQL":
        return world.postgres.crash, world.postgres.start
    if victim == "order service":
        return world.services[way].kill, lambda: world.start_service(way)
    programs: dict[str, Any] = {"relay": world.relay, "broker": world.broker, "consumer": rng.choice(world.consumers)}
    program = programs[victim]
    return program.kill, program.start
