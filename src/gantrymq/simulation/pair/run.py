"""One seed, one run: a primary waits for its replica, machines and lines fail, and an operator changes who is primary.

The operator knows what people must know: it makes a replica the primary only behind a planned failover, or when the
machine of the primary is off. That machine comes back as replica. Services and consumer are those of the other
simulations, and so are the rules by which the history is judged.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from gantrymq.admin import Admin
from gantrymq.admin.failover import carry_out, planned
from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.roles import Role
from gantrymq.errors import ConfigError, GantryError
from gantrymq.runtime.addresses import address_of
from gantrymq.simulation.faults import (
    CALM,
    Fault,
    connections_broken,
    rough_network,
    service_killed,
    slow_disks,
    unharmed,
)
from gantrymq.simulation.run import SERVICES, Plan, Result, break_things, place_orders, play
from gantrymq.simulation.stores import at_rest
from gantrymq.simulation.workload import IMMUNITY_MS, PLAIN_TOPIC, TOPIC
from gantrymq.simulation.world.cluster import BROKER_PORT, BrokerHost, Cluster
from gantrymq.simulation.world.network import HA_PORT
from gantrymq.simulation.world.waiting import wait

NAME: Final = "broker-0"
MASTER, SLAVE, NOTHING = "SYNC_MASTER", "SLAVE", 0
AGAIN: Final = {"brokerRole": MASTER, "brokerId": "0"}
PEACE_S: Final = 300.0
LATENCY_S: Final = 0.02
LOOK_AGAIN_S: Final = 20.0


def settings(role: str, number: int) -> dict[str, Any]:
    """Of one machine. ``number``: brokerId."""
    return {
        "broker_name": NAME, "broker_role": role, "broker_id": number, "ha_listen_port": HA_PORT, "slave_timeout": 2000,
        "register_name_server_period": 10_000,
        "decisive_check_grace_at_start": IMMUNITY_MS,  # who is asked early is what the other simulations look at
    }  # fmt: skip


def primary_of(cluster: Cluster) -> BrokerHost | None:
    """The machine whose broker is primary; None: there is none at the moment."""
    return next(
        (host for host in cluster.brokers if host.broker is not None and host.broker.role is Role.PRIMARY), None
    )


async def replica_lost(cluster: Cluster, rng: random.Random) -> None:
    """Its process is killed, or its power goes off."""
    primary = primary_of(cluster)
    hosts = [host for host in cluster.brokers if host is not primary and host.node is not None]
    if hosts:
        await off_and_on(cluster, rng.choice(hosts), rng)


async def primary_lost(cluster: Cluster, rng: random.Random) -> None:
    """It comes back as primary, because nobody made the replica one."""
    primary = primary_of(cluster)
    if primary is not None and not cluster.busy:
        cluster.busy = True
        try:
            await off_and_on(cluster, primary, rng)
        finally:
            cluster.busy = False


async def off_and_on(cluster: Cluster, host: BrokerHost, rng: random.Random) -> None:
    if rng.random() < 0.5:
        cluster.cut_power(host)
    else:
        cluster.kill_broker(host)
    await wait(cluster, rng.uniform(0.2, 4))
    await cluster.revive(host)


async def replaced(cluster: Cluster, rng: random.Random) -> None:
    """The machine of the primary is off, and the replica becomes primary. Later the old one comes back as replica."""
    primary = primary_of(cluster)
    if primary is None or cluster.busy:
        return
    cluster.busy = True
    try:
        if not has_caught_up(cluster):
            return  # messages would be lost, as the command says beforehand
        await _replace(cluster, primary, rng)
    finally:
        cluster.busy = False


async def _replace(cluster: Cluster, primary: BrokerHost, rng: random.Random) -> None:
    cluster.cut_power(primary) if rng.random() < 0.5 else cluster.kill_broker(primary)
    await wait(cluster, rng.uniform(0, 2))
    await take_its_place(cluster, primary, rng.uniform(0.2, 4))


async def take_its_place(cluster: Cluster, primary: BrokerHost, back_s: float) -> None:
    """The replica of a machine that is off is forced to be primary. The machine comes back as replica, later."""
    if not await failover(cluster, NAME, forced=True):
        await wait(cluster, LOOK_AGAIN_S)  # an answer may have been lost: the operator looks what became of it
    if primary_of(cluster) is not None:
        cluster.injected["replica forced to be primary"] += 1
        primary.settings = settings(SLAVE, 2)
    await wait(cluster, back_s)
    await cluster.revive(primary)
    await _make_synchronous(cluster)


async def restarted_alone(cluster: Cluster, rng: random.Random) -> None:
    """The primary is started again with records that its replica does not have, because the two do not reach each
    other. Sometimes its machine is lost then, and the replica takes its place: nobody may have seen those records."""
    primary = primary_of(cluster)
    if primary is None or cluster.busy:
        return
    cluster.busy = True
    try:
        if not has_caught_up(cluster):
            return
        one, other = cluster.brokers
        cluster.network.part(one.address, other.address)
        await wait(cluster, rng.uniform(0.5, 4))
        ends = None if primary.broker is None else primary.broker.store
        if ends is not None and ends.safety.position < ends.written:
            cluster.injected["primary restarted with unconfirmed records"] += 1
        await off_and_on(cluster, primary, rng)
        await wait(cluster, rng.uniform(0.5, 4))
        if rng.random() < 0.7:
            await _replace(cluster, primary, rng)
        cluster.network.heal()
    finally:
        cluster.busy = False


async def _make_synchronous(cluster: Cluster) -> None:
    """A primary that was forced waits for nobody. Now it has a replica again, for which it is to wait."""
    primary = primary_of(cluster)
    if primary is not None and primary.broker is not None and primary.broker._config.identity.broker_role != MASTER:
        address = address_of(primary.address, BROKER_PORT)
        await _operate(cluster, lambda admin: admin.brokers.set_config(address, AGAIN))


async def change_places(cluster: Cluster, rng: random.Random) -> None:
    """A planned failover."""
    if cluster.busy:
        return
    cluster.busy = True
    try:
        if await failover(cluster, NAME, forced=False):
            cluster.injected["places changed"] += 1
    finally:
        cluster.busy = False


def has_caught_up(cluster: Cluster) -> bool:
    """Whether the replica has everything that was called stored: the primary is synchronous, and the replica has caught
    up with it since. From then on nothing is called stored that the replica does not have, so it may be made primary
    at any time, also when it is behind or away."""
    primary = primary_of(cluster)
    broker = None if primary is None else primary.broker
    if broker is None or broker._copies is None:
        return False
    since = cluster.synchronous.setdefault(id(broker._copies), [broker._copies, broker.store.written])
    copies = broker.operations.administration.figures.replication().copies
    if any(one.confirmed >= max(since[1], 1) for one in copies):  # with an empty log nothing would be in common
        since[1] = -1
    return bool(since[1] == -1)


async def failover(cluster: Cluster, name: str, *, forced: bool) -> bool:
    """As ``gantry cluster failover`` does it."""

    async def work(admin: Admin) -> None:
        plan = await planned(admin.brokers, name, None, forced=forced)
        await carry_out(admin.brokers, plan, lambda _text: None, admin._endpoint.clock)

    return await _operate(cluster, work)


async def _operate(cluster: Cluster, work: Callable[[Admin], Awaitable[None]]) -> bool:
    """What an operator does. Whether it was done."""
    process = cluster.process("operator", "10.0.3.1")

    async def operate() -> None:
        async with Admin(process.name_servers, outside=process.outside, call_timeout_ms=2000) as admin:
            await work(admin)

    try:
        await asyncio.wait_for(asyncio.shield(process.node.start(operate())), 60)
    except (ConfigError, GantryError, TimeoutError) as error:
        cluster.injected[f"an operator was told {type(error).__name__}"] += 1
        return False
    return True


def _keeps_roles(cluster: Cluster, name: str, broker: Broker) -> None:
    """What ``broker.conf`` does for a real broker: a role that was changed is there after the next start."""
    host = next(one for one in cluster.brokers if one.name == name)

    replace = broker._config.replace

    def kept(config: BrokerConfig) -> None:
        host.settings = settings(config.identity.broker_role, config.identity.broker_id)
        replace(config)

    broker._config.replace = kept  # type: ignore[method-assign]


async def machines_parted(cluster: Cluster, rng: random.Random) -> None:
    """The two do not reach each other for some seconds; everybody else reaches both."""
    one, other = cluster.brokers
    cluster.network.part(one.address, other.address)
    await wait(cluster, rng.uniform(0.5, 8))
    cluster.network.heal()


async def slow_network(cluster: Cluster, rng: random.Random) -> None:
    """Everything takes longer, so that more is under way when something fails."""
    cluster.network.faults = type(CALM)(latency_s=LATENCY_S)
    await wait(cluster, rng.uniform(1, 10))
    cluster.network.faults = CALM


PAIR_FAULTS: Final[Mapping[str, Fault]] = {
    "replica lost": replica_lost,
    "primary lost": primary_lost,
    "primary replaced": replaced,
    "primary restarted alone": restarted_alone,
    "places changed": change_places,
    "machines parted": machines_parted,
    "slow network": slow_network,
    "slow disks": slow_disks,
    "rough network": rough_network,
    "connections broken": connections_broken,
    "service killed": service_killed,
}
DEFAULT: Final = Plan(orders=24, faults=tuple(PAIR_FAULTS), fault_count=8, brokers=2)


def run(seed: int, plan: Plan = DEFAULT, *, log: bool = False) -> Result:
    """Play one seed."""
    return play(seed, plan, _scenario, log=log)


async def begin(cluster: Cluster) -> None:
    """Both run, with services and a consumer, and the replica has caught up."""
    cluster.brokers[0].settings, cluster.brokers[1].settings = settings(MASTER, NOTHING), settings(SLAVE, 1)
    cluster.started = partial(_keeps_roles, cluster)
    await cluster.start_name_server()
    for host in cluster.brokers:
        await cluster.start_broker(host)
    for _ in range(SERVICES):
        await cluster.start_service()
    await cluster.start_reader()
    await until(lambda: has_caught_up(cluster), 30)


async def _scenario(cluster: Cluster, plan: Plan) -> None:
    await begin(cluster)
    customers = asyncio.ensure_future(place_orders(cluster, plan.orders))
    watch = asyncio.ensure_future(_watch(cluster))
    rng = random.Random(cluster.rng.randrange(1 << 62))
    await break_things(cluster, plan, rng, PAIR_FAULTS)
    await customers
    await make_peace(cluster)
    watch.cancel()
    at_rest(cluster)
    cluster.errors += places_with_two_messages(cluster)


async def _watch(cluster: Cluster) -> None:
    """The operator looks all the time whether the replica has caught up."""
    while True:
        has_caught_up(cluster)
        await asyncio.sleep(0.05)


def places_with_two_messages(cluster: Cluster) -> list[str]:
    """What a consumer has seen must not be replaced by something else."""
    seen: dict[tuple[object, ...], str] = {}
    found = []
    for event in cluster.history.events:
        if event["event"] == "delivered":
            place = (event["topic"], event["queue"], event["offset"])
            if seen.setdefault(place, event["tx"]) != event["tx"]:
                found.append(f"{place} was {seen[place]} and is {event['tx']}")
    return found


async def make_peace(cluster: Cluster) -> None:
    """Both machines run, one follows the other, and nothing is open or on its way."""
    cluster.chances.unknown = 0.0
    cluster.network.heal()
    cluster.network.faults = CALM
    for host in cluster.brokers:
        unharmed(host.disk)
        await cluster.revive(host)
    while primary_of(cluster) is None:  # a failover broke off, and its operator looks at it
        await failover(cluster, NAME, forced=True)
        await asyncio.sleep(1)
    await start_service(cluster)
    if not await until(lambda: settled(cluster), PEACE_S):
        cluster.errors.append(f"not settled: {state_of(cluster)}")
    elif len({log_of(host) for host in cluster.brokers}) > 1:
        cluster.errors.append(f"the logs differ: {state_of(cluster)}")
    await asyncio.sleep(3)


async def start_service(cluster: Cluster) -> None:
    while True:
        try:
            await cluster.start_service()
            return
        except GantryError:
            await asyncio.sleep(1)


async def until(holds: Callable[[], bool], limit_s: float) -> bool:
    ends = asyncio.get_running_loop().time() + limit_s
    while not holds():
        if asyncio.get_running_loop().time() > ends:
            return False
        await asyncio.sleep(0.5)
    return True


def settled(cluster: Cluster) -> bool:
    primary = primary_of(cluster)
    if primary is None or primary.broker is None or not primary.broker.leads or len(primary.broker.coordinator.table):
        return False
    store = primary.broker.store
    arrived = {
        (event["topic"], event["queue"], event["offset"])
        for event in cluster.history.events
        if event["event"] == "delivered"
    }
    there = {
        (topic, queue, offset)
        for topic, queue in store.queues()
        if topic in (TOPIC, PLAIN_TOPIC)
        for offset in range(store.queue_range(topic, queue)[1])
    }
    return there <= arrived and all(_follows_to(host, store.written) for host in cluster.brokers if host is not primary)


def _follows_to(host: BrokerHost, end: int) -> bool:
    """Whether a replica has compared its log, and has everything."""
    if host.broker is None:
        return False
    following = host.broker.operations.administration.figures.replication().following
    return following is not None and following.follows and host.broker.store.written == end


def log_of(host: BrokerHost) -> bytes:
    assert host.broker is not None
    store = host.broker.store
    return store.read_raw(store.min_log_offset, store.written - store.min_log_offset)


def state_of(cluster: Cluster) -> list[str]:
    found = []
    for host in cluster.brokers:
        broker = host.broker
        if broker is None:
            found.append(f"{host.name} is off")
            continue
        state = broker.operations.administration.figures.replication()
        following = state.following
        found.append(
            f"{host.name}: {broker.role.value}, log ends at {state.end}, visible to {broker.store.max_log_offset}, "
            f"{len(broker.coordinator.table)} open"
            + (
                f", {[one.gap for one in state.copies]} behind"
                if following is None
                else f", {following.state}: {following.problem}"
            )
        )
    return found
