"""Looks at a cluster over the network: each name server, each broker, dead letters, and members of groups.

A peer that does not answer, or may not be asked, becomes a fact. So a cluster with a broken broker can be looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from gantrymq.admin import Admin
from gantrymq.admin.brokers import BrokerPlace
from gantrymq.admin.groups import of_system
from gantrymq.doctor.brokers import look_at_broker, name_at, why
from gantrymq.doctor.facts import (
    BrokerFacts,
    ClusterFacts,
    DeadLetters,
    NameServerFacts,
    SelectorConflict,
)
from gantrymq.errors import GantryError, RequestRejected
from gantrymq.message.system_topics import DEAD_LETTER_PREFIX
from gantrymq.protocol.codes import ResponseCode
from gantrymq.runtime.addresses import address_of, host_of, split_address
from gantrymq.runtime.clock import Clock, SystemClock

T = TypeVar("T")
R = TypeVar("R")

GROUPS_MAX: Final = 200
"""Groups whose dead letters, or members, are asked for: each costs a question to each broker."""
AT_ONCE: Final = 8
"""Such questions at the same time: looking must not be a load."""


async def look_at_cluster(admin: Admin, clock: Clock | None = None) -> ClusterFacts:
    """What name servers and brokers say now. ``clock``: that of this machine, with which brokers are compared.

    A peer that is silent costs the ``call_timeout_ms`` of the admin client, and all are asked at once.
    """
    clock = SystemClock() if clock is None else clock
    at_ms = clock.wall_ms()
    answers = await asyncio.gather(*(_ask_name_server(admin, address) for address in admin.name_servers))
    name_servers = [facts for facts, _ in answers]
    known: dict[BrokerPlace, list[str]] = {}
    for facts, places in answers:
        for place in places:
            known.setdefault(place, []).append(facts.address)
    brokers = await asyncio.gather(*(look_at_broker(admin, place, clock) for place in known))
    brokers = [
        replace(broker, known_to=tuple(known_to)) for broker, known_to in zip(brokers, known.values(), strict=True)
    ]
    hosts = [host_of(facts.address) for facts in name_servers if not facts.error]
    brokers = await asyncio.gather(*(_looked_for(admin, broker, hosts) for broker in brokers))
    unseen: list[str] = []
    dead: Sequence[DeadLetters] = ()
    conflicts: Sequence[SelectorConflict] = ()
    if any(not broker.error for broker in brokers):
        dead = await _unless_refused(lambda: _dead_letters(admin, unseen), (), "dead letters", unseen)
        conflicts = await _unless_refused(lambda: _conflicts(admin, unseen), (), "members of consumer groups", unseen)
    return ClusterFacts(
        at_ms=at_ms, name_servers=tuple(name_servers), brokers=tuple(sorted(brokers, key=_order)),
        dead_letters=tuple(dead), conflicts=tuple(conflicts), unseen=tuple(unseen),
    )  # fmt: skip


def _order(broker: BrokerFacts) -> tuple[str, str, int]:
    return broker.cluster, broker.name, broker.broker_id


async def _ask_name_server(admin: Admin, address: str) -> tuple[NameServerFacts, list[BrokerPlace]]:
    try:
        return NameServerFacts(address), await admin.brokers.places_at(address)
    except RequestRejected as error:
        return NameServerFacts(address, str(error), error.code == ResponseCode.NO_PERMISSION), []
    except GantryError as error:
        return NameServerFacts(address, why(error, address)), []


async def _looked_for(admin: Admin, broker: BrokerFacts, hosts: Sequence[str]) -> BrokerFacts:
    """A broker that is not where it says: perhaps it is on the machine of a name server, at the same port."""
    if not broker.error and broker.answers_as in ("", broker.name):
        return broker
    try:
        port = split_address(broker.address)[1]
    except ValueError:
        return broker
    for host in dict.fromkeys(hosts):
        candidate = address_of(host, port)
        if candidate != broker.address and await name_at(admin, candidate) == broker.name:
            return replace(broker, answers_at=candidate)
    return broker


async def _dead_letters(admin: Admin, unseen: list[str]) -> list[DeadLetters]:
    topics = [topic for topic in await admin.topics() if topic.startswith(DEAD_LETTER_PREFIX)]
    statuses = await _each(topics, admin.topic_state.status, "the dead letters of", unseen)
    found = []
    for topic, status in statuses:
        messages = sum(queue.max_offset - queue.min_offset for queue in status.queues.values())
        newest = max((queue.last_update_timestamp for queue in status.queues.values()), default=0)
        if messages > 0:
            found.append(DeadLetters(topic.removeprefix(DEAD_LETTER_PREFIX), messages, newest))
    return found


async def _conflicts(admin: Admin, unseen: list[str]) -> list[SelectorConflict]:
    groups = [group for group in await admin.groups.all() if not of_system(group)]
    members = await _each(groups, admin.consumers.connections, "the members of", unseen)
    return [
        SelectorConflict(group, topic, tuple(sorted(selectors)))
        for group, online in members
        if online is not None
        for topic, selectors in sorted((online.subscription_conflicts or {}).items())
    ]


async def _each(
    names: Sequence[str], ask: Callable[[str], Awaitable[T]], what: str, unseen: list[str]
) -> list[tuple[str, T]]:
    """The answers by name, of the first ``GROUPS_MAX`` names, without those that were refused."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> T | GantryError:
        async with places:
            try:
                return await ask(name)
            except GantryError as error:
                return error

    asked = names[:GROUPS_MAX]
    if len(names) > GROUPS_MAX:
        unseen.append(f"{what} {len(names) - GROUPS_MAX} more groups: only the first {GROUPS_MAX} were asked for")
    answers = await asyncio.gather(*(one(name) for name in asked))
    failed = [answer for answer in answers if isinstance(answer, GantryError)]
    if failed:
        unseen.append(f"{what} {len(failed)} groups: {failed[0]}")
    return [(name, one) for name, one in zip(asked, answers, strict=True) if not isinstance(one, GantryError)]


async def _unless_refused(ask: Callable[[], Awaitable[R]], instead: R, what: str, unseen: list[str]) -> R:
    try:
        return await ask()
    except GantryError as error:
        unseen.append(f"{what}: {error}")
        return instead
