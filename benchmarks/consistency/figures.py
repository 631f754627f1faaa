"""What one turn gave. The instants are those of the databases: PostgreSQL notes when each row was committed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.consistency.setting import DOWNSTREAM, LOCAL, ORDERS
from benchmarks.consistency.world import World

POLL_S: Final = 0.1
PAID: Final = """
SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8, extract(epoch FROM paid_at)::float8
FROM orders WHERE id >= %s AND id < %s AND state = 'paid'"""
DONE: Final = """
SELECT order_id, extract(epoch FROM pg_xact_commit_timestamp(ledger.xmin))::float8,
       extract(epoch FROM delivered_at)::float8
FROM ledger LEFT JOIN inbox USING (order_id) WHERE order_id >= %s AND order_id < %s"""


@dataclass(frozen=True, slots=True)
class Turn:
    """Times in milliseconds."""

    per_second: float
    """Orders that the client threads have paid."""
    settled_per_second: float
    """Orders until the last of them had arrived everywhere; 0 where none arrives."""
    call_p50: float
    call_p99: float
    delivery_p50: float
    """From the commit of the order to the delivery to a consumer; for two-phase commit, to the commit there."""
    delivery_p99: float
    agree_p50: float
    """From the first commit to the last one of the four databases."""
    agree_p99: float
    locked_p50: float
    """From the update of the order's row to the commit."""
    locked_max: float
    errors: int


def share(values: Sequence[float], part: float) -> float:
    """A percentile; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def wait_until_agreed(world: World, first: int, count: int, limit_s: float) -> float:
    """Seconds until every paid order is in all ledgers; ``limit_s`` when that did not happen."""
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < limit_s:
        paid = _count(world, ORDERS, "orders WHERE state = 'paid' AND id", first, count)
        if all(_count(world, name, "ledger WHERE order_id", first, count) >= paid for name in DOWNSTREAM):
            return waited
        time.sleep(POLL_S)
    return limit_s


def _count(world: World, database: str, what: str, first: int, count: int) -> int:
    found = world.rows(database, f"SELECT count(*) FROM {what} >= %s AND {what.split()[-1]} < %s", first, first + count)
    return int(found[0][0])


def turn(world: World, way: str, first: int, count: int, seen: dict[str, Any]) -> Turn:
    """``seen``: what the order service answered."""
    paid = world.rows(ORDERS, PAID, first, first + count)
    committed = {number: at for number, at, _ in paid}
    agreed, delivered, last = dict(committed), [], 0.0
    begun = dict(committed)
    for name in DOWNSTREAM if way != LOCAL else ():
        for number, at, handed in world.rows(name, DONE, first, first + count):
            agreed[number] = max(agreed[number], at)
            begun[number] = min(begun[number], at)
            delivered.append((handed or at) - committed[number])
            last = max(last, at)
    latencies, ends = seen["latencies_ms"], seen["ends"]
    start = min((locked for _, _, locked in paid), default=0.0)
    agreement = [(agreed[number] - begun[number]) * 1000 for number in committed]
    locks = [(at - locked) * 1000 for _, at, locked in paid]
    return Turn(
        per_second=len(ends) / max(ends[-1:] or [1.0]),
        settled_per_second=len(paid) / (last - start) if last > start else 0.0,
        call_p50=statistics.median(latencies or [0.0]),
        call_p99=share(latencies, 0.99),
        delivery_p50=share(delivered, 0.5) * 1000,
        delivery_p99=share(delivered, 0.99) * 1000,
        agree_p50=share(agreement, 0.5),
        agree_p99=share(agreement, 0.99),
        locked_p50=share(locks, 0.5),
        locked_max=max(locks, default=0.0),
        errors=sum(seen["errors"].values()),
    )
