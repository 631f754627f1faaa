"""The plan of failures. It is made from the seed before anything starts, and says which order meets which failure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gantrymq.errors import ConfigError
from gantrymq.runtime.rng import Rng, SystemRng

MIN_ORDERS = 20
"""With fewer orders not every kind of failure could occur."""

MAX_ORDERS = 1_000_000
"""The limit exists because all orders of a plan are in memory."""

DECLINED_SHARE = 0.08
HANGING_SHARE = 0.06
LEAST_HANGING = 20
"""In a run that is large enough, at least this many payments hang, so that check-backs decide them."""
MOST_HANGING = 600
"""Each keeps a thread for some seconds."""

PRODUCER_KILLS = 3
ORDERS_PER_EXTRA_KILL = 5_000


class Fate(enum.Enum):
    """What happens when one order is paid."""

    PAID = "paid"
    DECLINED = "declined"
    """The payment breaks a constraint of the database. It rolls back, and so does its message."""
    HANGS_BEFORE_COMMIT = "hangs_before_commit"
    """The payment takes so long that a check-back rolls it back. It can no longer commit, and is run again."""
    HANGS_AFTER_COMMIT = "hangs_after_commit"
    """The payment commits, and its thread hangs before it tells the broker. A check-back finds the outcome row."""
    KILLED_BEFORE_COMMIT = "killed_before_commit"
    """The process is killed when its message is stored and its rows are written, but not committed. A check-back rolls
    back; another process pays the order."""
    KILLED_AFTER_COMMIT = "killed_after_commit"
    """The payment commits, and the process is killed before it can tell the broker."""


HANGING = (Fate.HANGS_BEFORE_COMMIT, Fate.HANGS_AFTER_COMMIT)
KILLED = (Fate.KILLED_BEFORE_COMMIT, Fate.KILLED_AFTER_COMMIT)


@dataclass(frozen=True, slots=True)
class Plan:
    """The failure of every order by its number, and the number of decided orders at which the broker is killed."""

    fates: tuple[Fate, ...]
    half_way: int
    """The number of orders that are paid before Spark must have started."""
    broker_kill_at: int

    def count(self, *fates: Fate) -> int:
        return sum(fate in fates for fate in self.fates)

    @property
    def certain_checks(self) -> int:
        """The number of transactions that only a check-back can decide."""
        return self.count(*HANGING, *KILLED)


def make_plan(orders: int, seed: int) -> Plan:
    """The same arguments give the same plan. Raises ConfigError when ``orders`` is out of range."""
    if not MIN_ORDERS <= orders <= MAX_ORDERS:
        raise ConfigError(f"--orders must be {MIN_ORDERS} to {MAX_ORDERS}, not {orders}")
    rng = SystemRng(seed)
    fates = [Fate.PAID] * orders
    kills = PRODUCER_KILLS + orders // ORDERS_PER_EXTRA_KILL
    for kill, number in enumerate(_spread(orders, kills, rng)):
        fates[number] = Fate.KILLED_BEFORE_COMMIT if kill % 3 == 1 else Fate.KILLED_AFTER_COMMIT
    hanging = min(max(round(orders * HANGING_SHARE), min(LEAST_HANGING, orders // 8)), MOST_HANGING)
    wanted = [Fate.HANGS_AFTER_COMMIT] * (hanging - hanging // 2) + [Fate.HANGS_BEFORE_COMMIT] * (hanging // 2)
    wanted += [Fate.DECLINED] * round(orders * DECLINED_SHARE)
    free = [number for number, fate in enumerate(fates) if fate is Fate.PAID]
    for fate in wanted:
        fates[_take(free, rng)] = fate
    half_way = orders // 2
    return Plan(tuple(fates), half_way, half_way + 1 + rng.below(max(1, orders // 10)))


def _spread(orders: int, count: int, rng: Rng) -> list[int]:
    """``count`` numbers below ``orders``, one in each of as many equal slices, and not close to its edges."""
    slice_size = orders / count
    return [int(index * slice_size + slice_size * (0.1 + 0.8 * rng.random())) for index in range(count)]


def _take(numbers: list[int], rng: Rng) -> int:
    """Remove and return one of ``numbers``; their order is not kept."""
    place = rng.below(len(numbers))
    numbers[place], numbers[-1] = numbers[-1], numbers[place]
    return numbers.pop()
