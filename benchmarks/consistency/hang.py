"""What waits, and what is locked, when a part of the system hangs for some seconds.

``points``: the tables of the points service are locked, as during a migration. ``broker``: the broker is stopped
(SIGSTOP). ``broker away``: it is killed, and started again after these seconds. Orders are paid all the time, by eight
clients that each pay one order after the other.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from benchmarks.consistency import figures
from benchmarks.consistency.setting import DOWNSTREAM, ORDERS, SERVICES, TWO_PHASE
from benchmarks.consistency.world import LOAD_SLACK_S, World

CLIENTS: Final = 8
COUNT: Final = 60_000
SAMPLE_S: Final = 0.1
MARK: Final = "the hang"
AWAY: Final = "broker away"
HANGS: Final = ("points", "broker", AWAY)
AGE: Final = "extract(epoch FROM clock_timestamp() - "
LOCKS: Final = f"""
SELECT datname, count(*), max({AGE}xact_start))::float8 FROM pg_stat_activity
WHERE backend_xid IS NOT NULL AND application_name <> '{MARK}' GROUP BY datname
UNION ALL
SELECT database, count(*), max({AGE}prepared))::float8 FROM pg_prepared_xacts GROUP BY database"""
"""Transactions that have written, and so hold locks on rows, for each database; how many, and the oldest one's age."""


@dataclass(slots=True)
class Locks:
    """What was seen in PostgreSQL while it went on."""

    longest_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SERVICES, 0.0))
    most: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SERVICES, 0))
    """Transactions of a database that held locks at the same time."""

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        at_once = dict.fromkeys(SERVICES, 0)
        for database, number, age in rows:
            if database in at_once:
                at_once[database] += number
                self.longest_s[database] = max(self.longest_s[database], age)
        for database, number in at_once.items():
            self.most[database] = max(self.most[database], number)


@contextmanager
def watched(world: World) -> Any:
    """Sample the locks for as long as the block runs."""
    found, over = Locks(), threading.Event()

    def watch() -> None:
        with world.postgres.connect(ORDERS) as connection:
            while not over.wait(SAMPLE_S):
                found.add(connection.execute(LOCKS.encode()).fetchall())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def what_hangs(way: str) -> list[str]:
    return ["points"] if way == TWO_PHASE else [*HANGS]


def measure(world: World, way: str, what: str, before_s: float, hang_s: float, after_s: float) -> dict[str, Any]:
    """One load with a hang in its middle."""
    first, service = world.new_orders(COUNT), world.start_service(way)
    seconds = before_s + hang_s + after_s
    service.ask(first=first, count=COUNT, clients=CLIENTS, seconds=seconds, rate=0)
    begun = time.monotonic()
    with watched(world) as locks:
        time.sleep(before_s)
        start = time.monotonic() - begun
        _hang(world, what, hang_s)
        back_at = time.time()
        end = time.monotonic() - begun
        seen = service.answer(seconds + LOAD_SLACK_S)
    settled_s = figures.wait_until_agreed(world, first, COUNT, LOAD_SLACK_S)
    agreed_s = _agreed_s(world, first, back_at) if settled_s < LOAD_SLACK_S else LOAD_SLACK_S
    found = figures.turn(world, way, first, COUNT, seen)
    ends = seen["ends"]
    return {
        "way": way, "hangs": what, "seconds": round(end - start, 1),
        "per_second_before": round(sum(at < start for at in ends) / start, 1),
        "per_second_during": round(sum(start + 0.5 <= at < end for at in ends) / (end - start - 0.5), 1),
        "order_locked_max_s": round(max(found.locked_max / 1000, locks.longest_s[ORDERS]), 2),
        "locked_max_s": {name: round(age, 2) for name, age in locks.longest_s.items()},
        "locked_at_once": locks.most, "call_max_s": round(max(seen["latencies_ms"], default=0.0) / 1000, 2),
        "failed_calls": found.errors, "errors": seen["errors"], "settled_after_s": round(settled_s, 1),
        "agreed_after_return_s": round(agreed_s, 1),
    }  # fmt: skip


def _agreed_s(world: World, first: int, back_at: float) -> float:
    """Seconds from the end of the hang until all services had done their part of the orders that were paid before it.
    Orders are paid behind it, too, and those have an end of their own."""
    span = (first, first + COUNT)
    paid = {number for number, at, _ in world.rows(ORDERS, figures.PAID, *span) if at <= back_at}
    ends = (
        at for name in DOWNSTREAM for number, at, _ in world.rows(name, figures.DONE, *span) if number in paid
    )  # fmt: skip
    return max(0.0, max(ends, default=back_at) - back_at)


def _hang(world: World, what: str, seconds: float) -> None:
    if what == "broker":
        world.broker.signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            world.broker.signal(signal.SIGCONT)
        return
    if what == AWAY:
        world.broker.kill()
        try:
            time.sleep(seconds)
        finally:
            world.broker.start()
        return
    with psycopg.connect(world.setting.conninfo(what), application_name=MARK) as connection:
        while True:
            try:
                connection.execute("LOCK TABLE ledger, totals IN ACCESS EXCLUSIVE MODE")
                break
            except psycopg.errors.DeadlockDetected:  # the service was between the two
                connection.rollback()
        time.sleep(seconds)
