"""How fast each way is: client threads without a pause, and the same calm load for all."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from benchmarks.consistency import cpu, figures
from benchmarks.consistency.setting import LOCAL
from benchmarks.consistency.world import World

ORDERS_PER_SECOND_MAX: Final = 4_000
"""So many orders are made ready for each second of a turn."""
AGREE_LIMIT_S: Final = 120.0
WARM_UP: Final = (4, 1.0)
"""Clients and seconds."""
CALM_CLIENTS: Final = 4
Row = dict[str, Any]
Tell = Callable[[str], None]


def warm_up(world: World, ways: Sequence[str]) -> None:
    for way in ways:
        world.start_service(way)
        turn(world, way, *WARM_UP)


def turn(world: World, way: str, clients: int, seconds: float, rate: float = 0) -> Row:
    """One way, measured once, until its orders have arrived everywhere."""
    count = int(seconds * (rate or ORDERS_PER_SECOND_MAX)) + clients
    before = cpu.of_programs(world, way)
    first, seen = world.load(way, clients, seconds, count, rate)
    if way != LOCAL:
        figures.wait_until_agreed(world, first, count, AGREE_LIMIT_S)
    after = cpu.of_programs(world, way)
    found = figures.turn(world, way, first, count, seen)
    return {**asdict(found), "cpu_ms": cpu.per_order_ms(before, after, len(seen["latencies_ms"]))}


def measure(
    world: World, ways: Sequence[str], clients: int, turns: int, seconds: float, rate: float, tell: Tell
) -> list[Row]:
    """A row for each way, its turns between those of the others: what the machine does meanwhile hits all of them."""
    taken: dict[str, list[Row]] = {way: [] for way in ways}
    for number in range(turns):
        for way in ways if number % 2 == 0 else ways[::-1]:
            taken[way].append(turn(world, way, clients, seconds, rate))
    rows = [_row(way, clients, rate, found) for way, found in taken.items()]
    for row in rows:
        tell(
            f"{row['way']}: {row['per_second']:,.0f} orders/s, call p50 {row['call_p50']:.1f} ms, delivery p50 "
            f"{row['delivery_p50']:.1f} ms"
        )
    return rows


def _row(way: str, clients: int, rate: float, turns: list[Row]) -> Row:
    names = [name for name in turns[0] if name not in ("cpu_ms", "errors", "locked_max")]
    middle = {name: round(statistics.median(found[name] for found in turns), 3) for name in names}
    programs = turns[0]["cpu_ms"]
    return {
        "way": way, "clients": clients, "rate": rate, **middle,
        "locked_max": round(max(found["locked_max"] for found in turns), 1),
        "errors": sum(found["errors"] for found in turns),
        "cpu_ms": {name: round(statistics.median(found["cpu_ms"][name] for found in turns), 3) for name in programs},
        "turns": turns,
    }  # fmt: skip


def ratio(rows: Sequence[Row], clients: int, ours: str, theirs: str, name: str = "per_second") -> tuple[float, ...]:
    """Ours as a part of theirs at so many clients: the median over turns that were next to each other, the least, the
    most. Nothing when one of them was not measured."""
    found = {row["way"]: row["turns"] for row in rows if row["clients"] == clients and not row["rate"]}
    if ours not in found or theirs not in found:
        return ()
    pairs = zip(found[ours], found[theirs], strict=True)
    shares = sorted(mine[name] / other[name] for mine, other in pairs if other[name])
    return (statistics.median(shares), shares[0], shares[-1]) if shares else ()
