"""One seed, one run: a cluster at work, faults, a time without faults, and the judgement of the history."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gantrymq.errors import GantryError
from gantrymq.simulation.faults import CALM, FAULTS, USUAL, Fault, unharmed
from gantrymq.simulation.judging.checker import Violation, check
from gantrymq.simulation.judging.history import Event
from gantrymq.simulation.stores import at_rest
from gantrymq.simulation.workload import PLAIN_TOPIC, TOPIC
from gantrymq.simulation.world.cluster import Cluster
from gantrymq.simulation.world.disk import PowerCut
from gantrymq.simulation.world.loop import NothingToDo
from gantrymq.simulation.world.pace import hurry

TROUBLE_S = 24.0
"""How long orders are placed and things break."""
PEACE_S = 300.0
"""Afterwards, at most, until everything that was open has been asked about and has arrived."""
SERVICES = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what; shrinking makes these smaller."""

    orders: int = 24
    faults: tuple[str, ...] = USUAL
    fault_count: int = 8
    brokers: int = 2


@dataclass(frozen=True, slots=True)
class Result:
    """What a seed showed."""

    seed: int
    plan: Plan
    violations: tuple[Violation, ...]
    errors: tuple[str, ...]
    """What our own code raised and nobody caught, and brokers that did not start again."""
    injected: Counter[str]
    events: tuple[Event, ...]
    virtual_seconds: float

    @property
    def good(self) -> bool:
        return not self.violations and not self.errors


DEFAULT = Plan()


def run(seed: int, plan: Plan = DEFAULT, *, log: bool = False, **settings: Any) -> Result:
    """Play one seed from its beginning to its end; see ``play``."""
    return play(seed, plan, _scenario, log=log, **settings)


def play(
    seed: int, plan: Plan, scenario: Callable[[Cluster, Plan], Awaitable[None]], *, log: bool = False, **settings: Any
) -> Result:
    """Play a scenario and judge its history; the same seed and plan give the same history.

    ``log``: leave the loggers of the product as they are instead of silencing them. ``settings``: of BrokerConfig.
    The order of sets of strings is part of the scenario, so a replay needs the same PYTHONHASHSEED.
    """
    cluster = Cluster.build(seed, plan.brokers, **settings)
    loop = cluster.loop
    loop.set_exception_handler(lambda _loop, context: _unexpected(cluster, context))
    quiet = logging.getLogger("gantrymq")
    level = quiet.level
    if not log:
        quiet.setLevel(logging.CRITICAL + 1)
    asyncio.set_event_loop(None)
    try:
        with hurry():
            loop.run_until_complete(scenario(cluster, plan))
    except NothingToDo as stuck:
        cluster.errors.append(f"stuck: {stuck}")
    except asyncio.CancelledError:  # as a result: it would end a process of --jobs, and nobody would hear of the seed
        cluster.errors.append("the scenario was cancelled: something it waited for was killed")
    except SystemExit as error:
        cluster.errors.append(f"the loop was ended by {error!r} at {_where(error)}")
    except Exception as error:  # noqa: BLE001 a seed that cannot be played is heard of, and does not end the others
        cluster.errors.append(f"the scenario broke off: {error!r} at {_where(error)}")
    finally:
        _end(cluster)  # what ends by it says so, too
        quiet.setLevel(level)
    found = tuple(check(cluster.history.events))
    return Result(
        seed, plan, found, tuple(cluster.errors), cluster.injected, tuple(cluster.history.events), loop.time()
    )


async def _scenario(cluster: Cluster, plan: Plan) -> None:
    await cluster.start_name_server()
    for host in cluster.brokers:
        await cluster.start_broker(host)
    for _ in range(SERVICES):
        await cluster.start_service()
    await cluster.start_reader()
    customers = asyncio.ensure_future(place_orders(cluster, plan.orders))
    rng = random.Random(cluster.rng.randrange(1 << 62))
    await break_things(cluster, plan, rng, FAULTS)
    await customers
    await _make_peace(cluster)
    at_rest(cluster)


async def place_orders(cluster: Cluster, count: int) -> None:
    """Orders for any service that lives, some one by one, some many at once; until none is under way any more."""
    orders = []
    rng = random.Random(cluster.rng.randrange(1 << 62))
    for number in range(count):
        if rng.random() < 0.5:
            await asyncio.sleep(rng.expovariate(count / 2 / TROUBLE_S))
        living = [service for service in cluster.services if service.node.alive]
        if not living:
            with contextlib.suppress(GantryError):
                living.append(await cluster.start_service())
        if living:
            service = rng.choice(living)
            orders.append(service.node.start(service.order(number)))
    await asyncio.gather(*orders, return_exceptions=True)  # a service that dies leaves its own behind


async def break_things(
    cluster: Cluster, plan: Plan, rng: random.Random, faults: Mapping[str, Fault], trouble_s: float = TROUBLE_S
) -> None:
    """Have the faults of the plan happen, and return when the trouble is over."""
    running = []
    for _ in range(plan.fault_count):
        await asyncio.sleep(rng.expovariate(plan.fault_count / trouble_s))
        name = rng.choice(plan.faults)
        cluster.history.add("fault", what=name)
        running.append(asyncio.ensure_future(faults[name](cluster, rng)))
    await asyncio.gather(*running)
    await asyncio.sleep(max(0.0, trouble_s - cluster.loop.time()))


async def _make_peace(cluster: Cluster) -> None:
    """Mend everything, start what is down, and wait until nothing is open and nothing is on its way."""
    cluster.chances.unknown = 0.0
    await mend(cluster)
    while True:
        try:
            await cluster.start_service()
            break
        except GantryError:
            await asyncio.sleep(1)
    end = cluster.loop.time() + PEACE_S
    while cluster.loop.time() < end and not settled(cluster):
        await asyncio.sleep(1)
    await asyncio.sleep(3)


async def mend(cluster: Cluster) -> None:
    """Network, clocks and disks are well again, and every broker runs."""
    cluster.network.heal()
    cluster.network.faults = CALM
    for host in cluster.brokers:
        host.skew_ms = 0
        if host.clock is not None:
            host.clock.skew_ms = 0
        unharmed(host.disk)
        if host.broker is not None and host.broker.store.refusal is not None:
            cluster.cut_power(host)
        await cluster.revive(host)


def settled(cluster: Cluster) -> bool:
    brokers = [host.broker for host in cluster.brokers if host.broker is not None]
    if any(len(broker.coordinator.table) for broker in brokers):
        return False
    arrived = {
        (event["broker"], event["topic"], event["queue"], event["offset"])
        for event in cluster.history.events
        if event["event"] == "delivered"
    }
    there = sum(
        broker.store.queue_range(topic, queue)[1]
        for broker in brokers
        for topic, queue in broker.store.queues()
        if topic in (TOPIC, PLAIN_TOPIC)
    )
    return len(arrived) >= there


def _unexpected(cluster: Cluster, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, PowerCut | asyncio.CancelledError):
        return
    cluster.errors.append(f"{context.get('message')}: {type(error).__name__}: {error} at {_where(error)}")


def _where(error: BaseException | None) -> str:
    """The last line of our code that an error went through."""
    frames = traceback.extract_tb(error.__traceback__ if error is not None else None)
    return f"{frames[-1].filename.rpartition('gantrymq/')[2]}:{frames[-1].lineno}" if frames else "an unknown place"


def _end(cluster: Cluster) -> None:
    """Unwind everything without a word."""
    loop = cluster.loop
    loop.set_exception_handler(lambda _loop, _context: None)
    for host in cluster.brokers:
        cluster.stop(host)
    for node in cluster.nodes:
        node.kill()
    for _ in range(2):  # a task that ends may start another one
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(BaseException):  # a power cut may come out of anything; the run is over
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
