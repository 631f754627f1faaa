"""The faults of members of consumer groups while messages are sent; the faults of brokers are in ``faults``."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from gantrymq.simulation.groups.members import GROUPS, TOPIC, Habits, Member
from gantrymq.simulation.world.cluster import NAME_SERVER, Cluster
from gantrymq.simulation.world.waiting import STEPS_MS, wait

QUEUES: Final = 3
"""Of the topic, on each broker."""
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
        process = cluster.process(f"{group}-{number}", f"10.0.{3 + number // 250}.{number % 250 + 1}")
        rng = random.Random(cluster.rng.randrange(1 << 62))
        member = Member(process, group, rng, self.habits, cluster.history, cluster.injected)
        self.members.append(member)
        cluster.history.add("joined", member=member.node.name, group=group)
        member.node.start(member.run())

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
        others = [host.address for host in cluster.brokers] + [NAME_SERVER]
        cluster.network.part(member.process.address, rng.choice(others))
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
        crowd.cluster.network.break_connections(member.process.address)


async def _clock_step(crowd: Crowd, rng: random.Random) -> None:
    """The wall clock of a member's machine is set; none of its waits follows it."""
    if (member := crowd.any(rng)) is not None:
        crowd.cluster.injected["member's clock stepped"] += 1
        member.process.clock.skew_ms += rng.choice(STEPS_MS)


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
    "clock step": _clock_step,
    "exceptions": _habit("raises", 0.3),
    "cancelled calls": _habit("cancels", 0.4),
    "slow messages": _habit("dawdles", 0.1),
    "exiting listeners": _habit("exits", 0.1),
}
