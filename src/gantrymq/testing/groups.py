"""One seed, one story of consumer groups: members that come, go, fail and are killed, and every message processed.

The same cluster, faults and judge as in ``simulation``; the members are in ``group_members``.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Final

from gantrymq.broker.broker import Broker
from gantrymq.client.producer import Producer
from gantrymq.errors import GantryError
from gantrymq.message.message import Message
from gantrymq.testing import faults
from gantrymq.testing.cluster import NAME_SERVERS, Cluster
from gantrymq.testing.faults import CALM, Fault
from gantrymq.testing.group_members import GROUPS, ORDERED, PUSHING, TOPIC, Habits, Member
from gantrymq.testing.simulation import Plan, Result, break_things, mend, play
from gantrymq.testing.waiting import wait

TROUBLE_S: Final = 40.0
"""How long messages are sent and things happen."""
PEACE_S: Final = 600.0
"""Afterwards, at most, until everything has been processed: a broker misses a host that vanished after 120 s, its locks
after 60, and a message that a listener refused comes again after 10 s, 30 s, 1 min ..."""
QUEUES: Final = 3
"""Of the topic, on each broker."""
AT_THE_START: Final = 2
MOST: Final = 4
"""Members of a group."""


@dataclass(slots=True)
class Crowd:
    """Everybody who is a member of a group, or was."""

    cluster: Cluster
    habits: Habits = field(default_factory=Habits)
    members: list[Member] = field(default_factory=list)

    def living(self, group: str | None = None) -> list[Member]:
        """Those that run and do not want to leave."""
        return [
            member
            for member in self.members
            if member.node.alive and not member.leaving and group in (None, member.group)
        ]

    def join(self, group: str) -> None:
        cluster = self.cluster
        number = len(self.members) + 1
        address = f"10.0.{3 + number // 250}.{number % 250 + 1}"
        node, _, doors = cluster.process(f"{group}-{number}", address)
        rng = random.Random(cluster.rng.randrange(1 << 62))
        member = Member(
            node, address, group, doors, NAME_SERVERS, rng, self.habits, cluster.history, cluster.injected
        )  # fmt: skip
        self.members.append(member)
        cluster.history.add("joined", member=node.name, group=group)
        node.start(member.run())

    def any(self, rng: random.Random) -> Member | None:
        living = self.living()
        return rng.choice(living) if living else None


# ---- what happens to them


async def _join(crowd: Crowd, rng: random.Random) -> None:
    group = rng.choice(GROUPS)
    if len(crowd.living(group)) < MOST:
        crowd.cluster.injected["member joined"] += 1
        crowd.join(group)


async def _leave(crowd: Crowd, rng: random.Random) -> None:
    """In good order: its program leaves its loop and closes its consumer."""
    if (member := crowd.any(rng)) is not None:
        crowd.cluster.injected["member left"] += 1
        member.leaving = True


async def _kill(crowd: Crowd, rng: random.Random) -> None:
    if (member := crowd.any(rng)) is not None:
        crowd.cluster.injected["member killed"] += 1
        crowd.cluster.kill(member.node)


async def _join_and_kill(crowd: Crowd, rng: random.Random) -> None:
    """A member is killed right after another one has taken some of its queues."""
    member = crowd.any(rng)
    if member is None or len(crowd.living(member.group)) >= MOST:
        return
    crowd.join(member.group)
    await wait(crowd.cluster, rng.choice((0.003, 0.1, rng.uniform(0, 2))))
    if member.node.alive:
        crowd.cluster.injected["member killed during a rebalance"] += 1
        crowd.cluster.kill(member.node)


async def _vanish(crowd: Crowd, rng: random.Random) -> None:
    """Its host goes off, and nobody is told."""
    if (member := crowd.any(rng)) is not None:
        crowd.cluster.injected["member vanished"] += 1
        crowd.cluster.history.add("gone", process=member.node.name)
        member.node.kill()


async def _cancel(crowd: Crowd, rng: random.Random) -> None:
    """The task in which its program uses the consumer is cancelled, perhaps again while it closes."""
    member = crowd.any(rng)
    serving = member.serving if member is not None else None
    if serving is None or serving.done():
        return
    crowd.cluster.injected["program cancelled"] += 1
    serving.cancel()
    if rng.random() < 0.3:
        await wait(crowd.cluster, rng.choice((0.0, 0.001, 0.01)))
        serving.cancel()


async def _cut_off(crowd: Crowd, rng: random.Random) -> None:
    """It does not reach a broker, or the name server, for some seconds."""
    cluster, member = crowd.cluster, crowd.any(rng)
    if member is not None:
        others = [host.address for host in cluster.brokers] + ["10.0.0.1"]
        cluster.network.part(member.address, rng.choice(others))
        await wait(cluster, rng.choice((rng.uniform(0.5, 8), rng.uniform(10, 60))))
        cluster.network.heal()


async def _reset(crowd: Crowd, rng: random.Random) -> None:
    """An operator has a group consume a part of a queue again."""
    cluster, group, queue_id = crowd.cluster, rng.choice(GROUPS), rng.randrange(QUEUES)
    offsets = getattr(rng.choice(cluster.brokers).broker, "offsets", None)  # it may be down, or just starting
    offset = offsets.get(group, TOPIC, queue_id) if offsets is not None else None
    if offsets is not None and offset is not None:
        cluster.injected["progress reset"] += 1
        offsets.reset(group, TOPIC, queue_id, rng.randrange(offset + 1))


async def _break_connections(crowd: Crowd, rng: random.Random) -> None:
    if (member := crowd.any(rng)) is not None:
        crowd.cluster.network.break_connections(member.address)


def _habit(name: str, likely: float) -> Callable[[Crowd, random.Random], Awaitable[None]]:
    async def fault(crowd: Crowd, rng: random.Random) -> None:
        setattr(crowd.habits, name, likely)
        await wait(crowd.cluster, rng.uniform(3, 15))
        setattr(crowd.habits, name, 0.0)

    return fault


MEMBER_FAULTS: Final[dict[str, Callable[[Crowd, random.Random], Awaitable[None]]]] = {
    "join": _join,
    "leave": _leave,
    "kill": _kill,
    "join and kill": _join_and_kill,
    "vanish": _vanish,
    "cancel": _cancel,
    "cut off": _cut_off,
    "break connections": _break_connections,
    "reset": _reset,
    "exceptions": _habit("raises", 0.15),
    "cancelled calls": _habit("cancels", 0.4),
    "slow messages": _habit("dawdles", 0.1),
    "exiting listeners": _habit("exits", 0.1),
}
BROKER_FAULTS: Final = ("process killed", "power cut", "rough network")
GROUP_FAULTS: Final = (*MEMBER_FAULTS, *BROKER_FAULTS)
NOT_YET: Final = {"exiting listeners"}
DEFAULT: Final = Plan(
    orders=80, faults=tuple(name for name in GROUP_FAULTS if name not in NOT_YET), fault_count=30
)  # fmt: skip
"""``orders``: how many messages are sent."""


def run(seed: int, plan: Plan = DEFAULT, *, log: bool = False, **settings: Any) -> Result:
    """Play one seed of consumer groups from its beginning to its end; see ``simulation.play``."""
    return play(seed, plan, _story, log=log, **settings)


async def _story(cluster: Cluster, plan: Plan) -> None:
    cluster.started = partial(_note_progress, cluster)
    await cluster.start_name_server()
    for host in cluster.brokers:
        await cluster.start_broker(host)
    crowd = Crowd(cluster)
    for group in GROUPS:
        cluster.history.add("group", group=group, topic=TOPIC, orderly=group == ORDERED, retries=group == PUSHING)
        for _ in range(AT_THE_START):
            crowd.join(group)
    node, _, doors = cluster.process("sender", "10.0.1.1")
    sending = node.start(_send(cluster, plan.orders, Producer(
        "senders", name_servers=NAME_SERVERS, doors=doors, default_topic_queue_nums=QUEUES
    )))  # fmt: skip
    rng = random.Random(cluster.rng.randrange(1 << 62))
    await break_things(cluster, plan, rng, _faults_of(crowd), TROUBLE_S)
    await sending
    await _peace(crowd)
    cluster.history.add("quiet")


def _note_progress(cluster: Cluster, name: str, broker: Broker) -> None:
    """Have what a broker is told of a group's progress in the history, where it is news."""
    commit = broker.offsets.commit
    known: dict[tuple[str, int], int] = {}

    def noted(group: str, topic: str, queue_id: int, offset: int) -> None:
        if topic == TOPIC and known.get((group, queue_id)) != offset:
            known[group, queue_id] = offset
            cluster.history.add(
                "progress", group=group, broker=name, topic=topic, queue=queue_id, offset=offset
            )  # fmt: skip
        commit(group, topic, queue_id, offset)

    broker.offsets.commit = noted  # type: ignore[method-assign]


def _faults_of(crowd: Crowd) -> dict[str, Fault]:
    def of_members(name: str) -> Fault:
        return lambda _, rng: MEMBER_FAULTS[name](crowd, rng)

    return {name: of_members(name) for name in MEMBER_FAULTS} | {name: faults.FAULTS[name] for name in BROKER_FAULTS}


async def _send(cluster: Cluster, count: int, producer: Producer) -> None:
    """Now one message, now many; what fails is not sent again."""
    rng = random.Random(cluster.rng.randrange(1 << 62))
    await producer.start()
    for number in range(count):
        if rng.random() < 0.3:
            await asyncio.sleep(rng.expovariate(count * 0.3 / TROUBLE_S))
        name = f"message-{number}"
        cluster.history.add("sent", message=name, topic=TOPIC, confirmed=False)
        with contextlib.suppress(GantryError):
            result = await producer.send(Message(TOPIC, name.encode()))
            cluster.history.add(
                "sent", message=name, topic=TOPIC, confirmed=True, broker=result.queue.broker_name,
                queue=result.queue.queue_id, offset=result.queue_offset,
            )  # fmt: skip


async def _peace(crowd: Crowd) -> None:
    """Mend everything, have a member in each group, and wait until all is processed."""
    cluster = crowd.cluster
    for habit in fields(Habits):
        setattr(crowd.habits, habit.name, 0.0)
    cluster.network.faults = CALM
    await mend(cluster)
    for group in GROUPS:
        if not crowd.living(group):
            crowd.join(group)
    end = cluster.loop.time() + PEACE_S
    while cluster.loop.time() < end and not _all_processed(cluster):
        await asyncio.sleep(1)


def _all_processed(cluster: Cluster) -> bool:
    sent, done = set(), set()
    for event in cluster.history.events:
        if event["event"] == "sent" and event["confirmed"]:
            sent.add(event["message"])
        elif event["event"] == "processed":
            done.add((event["group"], event["message"]))
    return all((group, message) in done for group in GROUPS for message in sent)
