"""One seed, one run: a store is fed the log of another one by its seams, and bytes are compared after every step."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.simulation.judging.violation import Violation
from gantrymq.simulation.replica.sides import FOLLOWS, Side, differences, index_differences, records
from gantrymq.simulation.run import Plan, Result
from gantrymq.simulation.world.cluster import EPOCH_MS
from gantrymq.simulation.world.disk import PowerCut
from gantrymq.simulation.world.loop import NothingToDo, VirtualLoop
from gantrymq.store.config import FlushDiskType

PIECES: Final = (1, 7, 100, 700, 5_000, 32_768)
"""Bytes that are fed at once: Apache sends up to the last."""
CUT_OPERATIONS: Final = 60
"""A cut that is interrupted by a loss of power is so at one of so many changes of the disk."""


class Pair:
    """A primary and its replica, and what is done to them."""

    def __init__(self, seed: int, loop: asyncio.AbstractEventLoop) -> None:
        self.rng = random.Random(seed)
        self.injected: Counter[str] = Counter()
        flush = self.rng.choice(list(FlushDiskType))
        self.primary = Side("primary", self.rng.randrange(1 << 32), loop, flush)
        self.replica = Side("replica", self.rng.randrange(1 << 32), loop, flush)
        self.replica.store.follow(FOLLOWS)
        self._number = 0

    async def append(self) -> None:
        """New records on the primary."""
        for _ in range(self.rng.randint(1, 4)):
            new = list(records(self.rng, self._number, EPOCH_MS + int(asyncio.get_running_loop().time() * 1000)))
            self._number += len(new)
            self.primary.store.append(new)
            if self.rng.random() < 0.5:
                await asyncio.sleep(0)

    async def feed(self, *, everything: bool = False) -> None:
        """Some pieces of the primary's log."""
        piece = 32_768 if everything else self.rng.choice(PIECES)
        store = self.replica.store
        for _ in range(1 << 30 if everything else self.rng.randint(1, 60)):
            place = store.next_raw
            size = piece if everything else self.rng.randint(1, piece)
            data = self.primary.log(place, min(place + size, self.primary.end)) if place < self.primary.end else b""
            if not data:
                break
            store.append_raw(place, data)
            if self.rng.random() < 0.3:
                await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def wait(self) -> None:
        """Let queues be written, and marks."""
        await asyncio.sleep(self.rng.uniform(0, 8))

    async def crash_primary(self) -> None:
        """What it lost is cut from the replica."""
        self.primary.crash(power=self.rng.random() < 0.6, follows=False)
        await self._fit()

    async def crash_replica(self) -> None:
        self.replica.crash(power=self.rng.random() < 0.6, follows=True)

    async def restart_replica(self) -> None:
        await self.replica.restart(follows=True)

    async def cut(self) -> None:
        """The replica's log, at any record."""
        await self.replica.store.truncate(self.rng.choice(self.replica.boundaries()))

    async def cut_and_crash(self) -> None:
        """The power goes off while the log is cut."""
        where = self.rng.choice(self.replica.boundaries())
        least = min(where, self.replica.store.flushed)
        self.replica.disk.operations_left = self.rng.randrange(CUT_OPERATIONS)
        try:
            async with asyncio.timeout(5):
                await self.replica.store.truncate(where)
        except (PowerCut, TimeoutError, GantryError):
            self.injected["power cut in a cut"] += 1
        self.replica.crash(power=self.rng.random() < 0.6, follows=True)
        if self.replica.end < least:
            raise AssertionError(f"a cut at {where} left a log that ends at {self.replica.end}")

    async def change_roles(self) -> None:
        """The replica goes on as primary. What only the other one has is cut there."""
        await asyncio.sleep(0)
        self.primary, self.replica = self.replica, self.primary
        self.primary.store.lead()
        self.replica.store.follow(FOLLOWS)
        await self._fit()

    async def _fit(self) -> None:
        """Cut from the replica what the primary does not have."""
        await asyncio.sleep(0)
        if self.replica.end > self.primary.end:
            await self.replica.store.truncate(self.primary.end)
        self.replica.store.forget_rest()

    def check(self) -> list[str]:
        return list(differences(self.primary, self.replica))


STEPS: Final[dict[str, Callable[[Pair], Awaitable[None]]]] = {
    "wait": Pair.wait,
    "crash_primary": Pair.crash_primary,
    "crash_replica": Pair.crash_replica,
    "restart_replica": Pair.restart_replica,
    "cut": Pair.cut,
    "cut_and_crash": Pair.cut_and_crash,
    "change_roles": Pair.change_roles,
}
"""What happens between two pieces of the log."""
DEFAULT: Final = Plan(orders=24, faults=tuple(STEPS), fault_count=12, brokers=2)
"""``orders``: how often something is appended and fed."""


def run(seed: int, plan: Plan = DEFAULT, *, log: bool = False) -> Result:
    """Play one seed. ``log``: leave the loggers of the product as they are instead of silencing them."""
    loop = VirtualLoop()
    quiet = logging.getLogger("gantrymq")
    level = quiet.level
    if not log:
        quiet.setLevel(logging.CRITICAL + 1)
    violations: list[Violation] = []
    errors: list[str] = []
    injected: Counter[str] = Counter()
    loop.set_exception_handler(lambda _loop, context: _note(errors, context))
    asyncio.set_event_loop(None)
    try:
        loop.run_until_complete(_scenario(seed, loop, plan, violations, injected))
    except NothingToDo as stuck:
        errors.append(f"stuck: {stuck}")
    except (Exception, PowerCut) as error:  # noqa: BLE001 a seed that cannot be played is heard of
        errors.append(f"the scenario broke off: {error!r} at {traceback.extract_tb(error.__traceback__)[-4:]}")
    finally:
        quiet.setLevel(level)
        seconds = loop.time()
        loop.close()
    return Result(seed, plan, tuple(violations), tuple(errors), injected, (), seconds)


def _note(errors: list[str], context: dict[str, object]) -> None:
    if not isinstance(context.get("exception"), PowerCut):
        errors.append(str(context))


async def _scenario(
    seed: int, loop: asyncio.AbstractEventLoop, plan: Plan, violations: list[Violation], injected: Counter[str]
) -> None:
    pair = Pair(seed, loop)
    pair.injected = injected
    steps = ["append", "feed"] * plan.orders + [pair.rng.choice(plan.faults) for _ in range(plan.fault_count)]
    order = pair.rng.sample(range(len(steps)), len(steps))
    for number in order:
        name = steps[number]
        if name in STEPS:
            injected[name] += 1
        step = STEPS.get(name) or {"append": Pair.append, "feed": Pair.feed}[name]
        await step(pair)
        await asyncio.sleep(0)
        _judge(pair, name, violations)
        if violations:
            return
    await pair.feed(everything=True)
    await asyncio.sleep(7)
    _judge(pair, "the end", violations)
    violations += [Violation("equal index", "the end", text) for text in index_differences(pair.primary, pair.replica)]
    await pair.replica.restart(follows=True)
    _judge(pair, "the restart at the end", violations)


def _judge(pair: Pair, step: str, violations: list[Violation]) -> None:
    violations += [Violation("equal bytes", f"after {step}", text) for text in pair.check()]
