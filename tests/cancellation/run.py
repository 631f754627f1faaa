"""Cancels every call of the asyncio client at each of its steps, and judges what is left.

A step is one suspension of the call: it awaits something that is not there yet. For each call of
``cancellation_calls`` a new client does it once undisturbed, which tells the number of steps and the tasks of an idle
client. Then it is done once for each step and each ``When``, by a new client each, in one simulated cluster with
virtual time. The rules are in ``_judge``.

``python -m tests.cancellation.run --help``: more seeds, and a network that loses and delays.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import sys
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gantrymq.errors import Closed, GantryError
from gantrymq.simulation.faults import CALM, ROUGH
from gantrymq.simulation.world.cluster import Cluster
from gantrymq.simulation.world.loop import NothingToDo
from gantrymq.simulation.world.pace import hurry
from gantrymq.testing.local.node import Node
from tests.cancellation.calls import CALLS
from tests.cancellation.stepper import SimThreads, Stepper, When
from tests.cancellation.world import Call, World, left_over

SETTLE_S: Final = 2.5
"""After a call, until what it set going in the background has ended."""
RECOVER_S: Final = 15.0
"""The same after a rough network: connections over which nothing came any more are reset by then."""
LONGEST_S: Final = 200.0
"""A call that takes longer has no end."""
AT_PEACE_S: Final = 40.0
"""After the last point of a call, until its transactions are settled by check-back."""


CLOSED_WHEN: Final = (When.AT_ONCE, When.WITH_ANSWER)
"""When the client of a call is closed, in other runs of it."""


@dataclass(slots=True)
class Report:
    """What a run tried and found."""

    points: Counter[str] = field(default_factory=Counter)
    """By call: how often it was cancelled at work."""
    violations: list[str] = field(default_factory=list)
    seeds: int = 0
    """Played to the end."""


class _Run:
    """One seed."""

    def __init__(self, seed: int, rough: bool, report: Report) -> None:
        self._cluster = Cluster.build(seed, 1, recall_message_enable=True)
        self._rng = random.Random(seed)
        self._seed = seed
        self._rough = rough
        self._report = report
        self._where = "getting ready"
        self._numbers = 0
        loop = self._cluster.loop
        loop.set_default_executor(SimThreads(loop))
        loop.set_exception_handler(self._unexpected)

    def play(self, call: Call) -> None:
        loop = self._cluster.loop
        asyncio.set_event_loop(None)
        try:
            with hurry():
                loop.run_until_complete(self._play(call))
        except NothingToDo as stuck:
            self._violation(f"stuck: {stuck}")
        finally:
            self._end()

    async def _play(self, call: Call) -> None:
        cluster = self._cluster
        await cluster.start_name_server()
        await cluster.start_broker(cluster.brokers[0])
        world = World(cluster, rough=self._rough)
        await world.open(call)
        steps, idle = await self._undisturbed(world, call)
        for at in range(1, steps + 1):
            for when in When:
                await self._cancelled(world, call, idle, at, when)
                if when in CLOSED_WHEN and not call.ends_client:
                    await self._closed_meanwhile(world, call, at, when)
        self._where = f"{call.name}, afterwards"
        await asyncio.sleep(AT_PEACE_S if call.transactional else 0)
        for violation in await world.audit(call):
            self._violation(violation)
        await world.close()

    async def _undisturbed(self, world: World, call: Call) -> tuple[int, Counter[str]]:
        """Its number of steps, and the tasks that remain of it."""
        self._where = f"{call.name}, undisturbed"
        node, client = await self._client(world, call)
        stepper = Stepper(call.act(client, world))
        await self._ends(node, stepper.run())
        await asyncio.sleep(SETTLE_S)
        idle = _tasks(node)
        await self._close(node, client)
        return stepper.steps, idle

    async def _client(self, world: World, call: Call) -> tuple[Node, Any]:
        self._numbers += 1
        address = f"10.1.{self._numbers // 250 % 250}.{self._numbers % 250 + 1}"
        process = self._cluster.process(f"client-{self._numbers}", address)
        node = process.node
        client = node.call(call.make, process.outside, world)
        await self._ends(node, call.prepare(client, world))
        return node, client

    async def _ends(self, node: Node, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something in a process; a violation when it has no end, or fails in a calm network."""
        name = getattr(work, "__qualname__", "it")
        task = node.start(work)
        await asyncio.wait([task], timeout=LONGEST_S)
        if not task.done():
            self._violation(f"{name} has no end")
            task.cancel()
        elif not task.cancelled() and (error := task.exception()) is not None and not self._excused(error):
            self._violation(f"{name} raised {error!r}")
        return task

    def _excused(self, error: BaseException) -> bool:
        return self._cluster.network.faults is not CALM and isinstance(error, GantryError)

    async def _cancelled(self, world: World, call: Call, idle: Counter[str], at: int, when: When) -> None:
        self._where = f"{call.name}, step {at}, {when.value}"
        node, client = await self._client(world, call)
        if self._rough:
            self._cluster.network.faults = replace(ROUGH, latency_s=self._rng.choice((0.0005, 0.02, 0.3)))
        stepper = Stepper(call.act(client, world), at, when)
        task = await self._ends(node, stepper.run())
        self._cluster.network.faults = CALM
        if stepper.hit:
            self._report.points[call.name] += 1
            if not task.cancelled():
                self._violation("the cancellation was swallowed")
        await self._judge(world, call, node, client, idle)

    async def _closed_meanwhile(self, world: World, call: Call, at: int, when: When) -> None:
        """Its client is closed at a step of the call: it ends, with a result or an error of ours, and not as cancelled,
        for nobody has cancelled it."""
        self._where = f"{call.name}, step {at}, {when.value} the client is closed"
        node, client = await self._client(world, call)
        stepper = Stepper(call.act(client, world), at, when, lambda: node.start(client.close()))
        task = node.start(stepper.run())
        await asyncio.wait([task], timeout=LONGEST_S)
        self._report.points[call.name] += stepper.hit
        if not task.done():
            self._violation("it has no end")
        elif task.cancelled():
            self._violation("it ended as cancelled")
        elif (error := task.exception()) is not None and not isinstance(error, GantryError):
            self._violation(f"it raised {error!r}")
        await asyncio.sleep(SETTLE_S)
        for thing in left_over(client):
            self._violation(f"left over: {thing}")
        await self._close(node, client)

    async def _judge(self, world: World, call: Call, node: Node, client: Any, idle: Counter[str]) -> None:
        """Nothing is in flight or expected any more; no task is there that an idle client has not, the same call works,
        and ``close`` ends and leaves nothing."""
        await asyncio.sleep(RECOVER_S if self._rough else SETTLE_S)
        for thing in left_over(client):
            self._violation(f"left over: {thing}")
        if more := _tasks(node) - idle:
            self._violation(f"tasks that go on: {dict(more)}")
        again = node.start(call.again(client, world))
        await asyncio.wait([again], timeout=LONGEST_S)
        if not again.done():
            self._violation("the next call has no end")
        elif (error := again.exception()) is None:
            await asyncio.sleep(SETTLE_S)
            # The lock of a queue that could not be given back for the network's sake is there for a minute.
            if not call.ends_client and not self._rough and (missing := idle - _tasks(node)):
                self._violation(f"tasks that are missing after the next call: {dict(missing)}")
        elif not (call.may_close and isinstance(error, Closed)):
            self._violation(f"the next call raised {error!r}")
        await self._close(node, client)

    async def _close(self, node: Node, client: Any) -> None:
        await self._ends(node, client.close())
        await asyncio.sleep(0.1)
        if rest := _tasks(node):
            self._violation(f"tasks after close: {dict(rest)}")
        if count := self._cluster.network.connections_of(node):
            self._violation(f"{count} connection(s) after close")
        self._cluster.kill(node)

    def _violation(self, what: str) -> None:
        self._report.violations.append(f"seed {self._seed}: {self._where}: {what}")

    def _unexpected(self, _loop: object, context: dict[str, Any]) -> None:
        self._violation(f"{context.get('message')}: {context.get('exception')!r}")

    def _end(self) -> None:
        loop = self._cluster.loop
        loop.set_exception_handler(lambda _loop, _context: None)
        for host in self._cluster.brokers:
            self._cluster.stop(host)
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(BaseException):
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


def _tasks(node: Node) -> Counter[str]:
    return Counter(_name_of(task.get_coro()) for task in node.tasks if not task.done())


def _name_of(work: object) -> str:
    """A compiled coroutine has no name, and a class of its own that has one."""
    return str(getattr(work, "__qualname__", type(work).__name__))


def run(seeds: Iterable[int], calls: Iterable[Call] = CALLS, *, rough: bool = False) -> Report:
    """Try the calls with each seed; an interrupt ends it early.

    ``rough``: odd seeds are played in a network that loses, delays and breaks.
    """
    report = Report()
    quiet = logging.getLogger("gantrymq")
    level = quiet.level
    quiet.setLevel(logging.CRITICAL + 1)
    try:
        for seed in seeds:
            for call in calls:
                _Run(seed, rough and seed % 2 == 1, report).play(call)
            report.seeds += 1
    except KeyboardInterrupt:
        report.violations.append("interrupted")
    finally:
        quiet.setLevel(level)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cancellation.run", description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=1, help="how many; odd ones have a network that loses, delays and breaks"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--call", action="append", default=[], help="part of the name of a call; may be repeated")
    parser.add_argument("--list", action="store_true", help="the names of the calls")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        sys.stdout.writelines(f"{call.name}\n" for call in CALLS)
        return 0
    calls = [call for call in CALLS if not chosen.call or any(name in call.name for name in chosen.call)]
    report = run(range(chosen.first, chosen.first + chosen.seeds), calls, rough=True)
    sys.stdout.writelines(f"{name:50} {count:6}\n" for name, count in report.points.items())
    summary = f"{report.seeds} seed(s), {report.points.total()} points, {len(report.violations)} violations"
    sys.stdout.write(f"{summary}\n")
    sys.stdout.writelines(f"{violation}\n" for violation in report.violations)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
