"""The processor time that the programs of the benchmark use: on a shared machine the steadiest figure of all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from benchmarks.consistency.roles import Program
from benchmarks.consistency.world import World
from benchmarks.processes import cpu_s, parse_cpu_s


def of_programs(world: World, way: str) -> dict[str, float]:
    """Seconds used so far by the order service of this way, the relay, the broker, the consumers and PostgreSQL."""
    found = {
        "order service": _of(world.services.get(way)),
        "relay": _of(world.relay),
        "broker": _of(world.broker),
        "consumers": sum(map(_of, world.consumers)),
    }
    pid = world.postgres.pid
    return found | {"PostgreSQL": cpu_s(pid) + _of_children(pid) if pid else 0.0}


def per_order_ms(before: dict[str, float], after: dict[str, float], orders: int) -> dict[str, float]:
    return {name: round((after[name] - before[name]) * 1000 / max(1, orders), 3) for name in after}


def _of(program: Program | None) -> float:
    return 0.0 if program is None or program.process is None else cpu_s(program.process.pid)


def _of_children(pid: int) -> float:
    """Of the processes that it has started and that are still there."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = stat.read_text()
            if int(text.rpartition(")")[2].split()[1]) == pid:
                total += parse_cpu_s(text)
    return total
