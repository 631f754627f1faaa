"""One seed, one run of consumer groups: members join, leave, fail and are killed, and every message must be processed.

The same cluster, faults and judge as in ``simulation``; the members are in ``group_members``, what happens to
them in ``group_faults``.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import fields
from functools import partial
from typing import Any, Final

from gantrymq.broker.broker import Broker
from gantrymq.client.producer import Producer
from gantrymq.errors import GantryError
from gantrymq.message.message import Message
from gantrymq.simulation import faults
from gantrymq.simulation.faults import CALM, Fault
from gantrymq.simulation.groups.faults import MEMBER_FAULTS, QUEUES, Crowd
from gantrymq.simulation.groups.members import GROUPS, PUSHING, TOPIC, Habits
from gantrymq.simulation.run import Plan, Result, break_things, mend, play
from gantrymq.simulation.stores import at_rest
from gantrymq.simulation.world.cluster import NAME_SERVERS, Cluster

TROUBLE_S: Final = 40.0
"""How long messages are sent and things happen."""
PEACE_S: Final = 600.0
"""Afterwards, at most, until everything has been processed: a broker misses a host that vanished after 120 s, its locks
after 60, and a message that a listener refused comes again after 10 s, 30 s, 1 min ..."""
AT_THE_START: Final = 2
"""Members of each group."""
BROKER_FAULTS: Final = ("process killed", "power cut", "rough network")
GROUP_FAULTS: Final = (*MEMBER_FAULTS, *BROKER_FAULTS)
DEFAULT: Final = Plan(orders=80, faults=GROUP_FAULTS, fault_count=30)
"""``orders``: how many messages are sent."""


def run(seed: int, plan: Plan = DEFAULT, *, log: bool = False, **settings: Any) -> Result:
    """Play one seed of consumer groups from its beginning to its end; see ``simulation.play``."""
    return play(seed, plan, _scenario, log=log, **settings)


async def _scenario(cluster: Cluster, plan: Plan) -> None:
    cluster.started = partial(_note_progress, cluster)
    await cluster.start_name_server()
    for host in cluster.brokers:
        await cluster.start_broker(host)
    crowd = Crowd(cluster)
    for group in GROUPS:
        cluster.history.add("group", group=group, topic=TOPIC, orderly=group != PUSHING, retries=group == PUSHING)
        for _ in range(AT_THE_START):
            crowd.join(group)
    process = cluster.process("sender", "10.0.1.1")
    sending = process.node.start(_send(cluster, plan.orders, Producer(
        "senders", name_servers=NAME_SERVERS, outside=process.outside, default_topic_queue_nums=QUEUES
    )))  # fmt: skip
    rng = random.Random(cluster.rng.randrange(1 << 62))
    await break_things(cluster, plan, rng, _faults_of(crowd), TROUBLE_S)
    await sending
    await _peace(crowd)
    at_rest(cluster)


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
