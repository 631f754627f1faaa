"""Groups at work: progress, members, what a member does, and where it shall go on.

Source: DefaultMQAdminExtImpl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gantrymq.admin.asking import Asking
from gantrymq.client.connection.routes import subscribe_queues
from gantrymq.errors import ConfigError, RequestRejected
from gantrymq.message import system_topics
from gantrymq.message.connections import LiveProducer
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.progress import (
    ConsumerConnections,
    ConsumerRunning,
    ConsumeStats,
    ProducerConnections,
    ProducerTable,
    queue_of,
)
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.bodies.topics import KVTable
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.consumer import QueryConsumerOffset, UpdateConsumerOffset
from gantrymq.protocol.headers.pull import GetMaxOffset, GetMinOffset, OffsetAnswer, SearchOffset
from gantrymq.protocol.headers.tools import (
    ClientOfGroup,
    ConsumerGroupOnly,
    GetConsumeStats,
    ProducerGroupOnly,
    ResetOffset,
)

_RELAY_TIMEOUT_MS: Final = 12_000
"""A broker waits up to 10 s for the client it hands a question on to."""
OWNERS_MAX: Final = 50
"""Members that are asked which queues they hold; a silent one takes seconds."""
_NOT_THERE: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.CONSUMER_NOT_ONLINE,
        ResponseCode.SYSTEM_ERROR,
    }
)
"""How a broker says that it has nothing of a group; another one may have."""


class QueueLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is in one queue."""

    queue: MessageQueue
    broker_offset: int
    """One behind the last message."""
    consumer_offset: int
    last_ms: int
    """When the last message that was done was stored, ms since 1970; 0: unknown."""
    client: str | None = None
    """Who holds the queue; None: nobody, or unknown."""

    @property
    def lag(self) -> int:
        return max(self.broker_offset - self.consumer_offset, 0)


class GroupProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is, over all brokers."""

    group: str
    queues: list[QueueLag]
    tps: float

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)

    def reached(self, time_ms: int) -> bool:
        """Whether the group is done with everything that was stored before a time, which must be over when the
        progress is asked for. A group that has read nothing yet is not. A broker that is away says nothing, so what it
        holds does not count."""
        return bool(self.queues) and all(queue.lag == 0 or queue.last_ms >= time_ms for queue in self.queues)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group shall go on: exactly one of these is set."""

    edge: str | None = None
    """``earliest`` or ``latest``."""
    time_ms: int | None = None
    offset: int | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One queue of a reset."""

    queue: MessageQueue
    address: str
    before: int | None
    """None: the group has no offset there."""
    after: int


class Consumers:
    """Questions and commands about consumer groups at work, and about producers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """How far a group is. Raises RequestRejected when every broker refuses."""
        lags: list[QueueLag] = []
        tps = 0.0
        header = GetConsumeStats(consumer_group=group, topic=topic)
        refused: RequestRejected | None = None
        answered = 0
        for address in (await self._asking.masters()).values():
            try:
                answer = await self._asking.ask(
                    address, RequestCode.GET_CONSUME_STATS, header, what=f"progress of group {group!r}"
                )
            except RequestRejected as error:
                if error.code not in _NOT_THERE:
                    raise
                refused = error
                continue
            answered += 1
            stats = ConsumeStats.decode(answer.body)
            tps += stats.consume_tps
            lags += [
                QueueLag(
                    queue=queue, broker_offset=at.broker_offset, consumer_offset=at.consumer_offset,
                    last_ms=at.last_timestamp,
                )
                for queue, at in stats.by_queue().items()
            ]  # fmt: skip
        if refused is not None and not answered:
            raise refused
        return GroupProgress(group=group, queues=sorted(lags, key=lambda lag: lag.queue), tps=tps)

    async def connections(self, group: str) -> ConsumerConnections | None:
        """Members and subscriptions of a group, over all brokers; None when nobody is online."""
        merged: ConsumerConnections | None = None
        clients = {}
        conflicts: dict[str, dict[str, list[str]]] = {}
        for address in (await self._asking.masters()).values():
            answer = await self._asking.ask(
                address, RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupOnly(consumer_group=group),
                what=f"members of group {group!r}", accept=(ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE),
            )  # fmt: skip
            if answer.code == ResponseCode.SUCCESS:
                found = ConsumerConnections.decode(answer.body)
                merged = merged or found
                conflicts |= found.subscription_conflicts or {}
                clients.update({c.client_id: c for c in found.connection_set})
        if merged is None:
            return None
        return msgspec.structs.replace(
            merged, connection_set=[clients[name] for name in sorted(clients)], subscription_conflicts=conflicts or None
        )

    async def running(self, group: str, client_id: str) -> ConsumerRunning:
        """What a member says of itself; asked through any broker that knows it."""
        header = ClientOfGroup(consumer_group=group, client_id=client_id, jstack_enable=False)
        refused: RequestRejected | None = None
        for address in (await self._asking.masters()).values():
            try:
                answer = await self._asking.ask(
                    address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, timeout_ms=_RELAY_TIMEOUT_MS,
                    what=f"state of member {client_id} of group {group!r}",
                )  # fmt: skip
            except RequestRejected as error:
                refused = error
                continue
            return ConsumerRunning.decode(answer.body)
        raise refused or ConfigError("there is no broker to ask")

    async def owners(self, group: str, most: int = OWNERS_MAX) -> tuple[dict[MessageQueue, str], int]:
        """Queue to the member that holds it, as far as members tell; and how many more members there are than the
        ``most`` that were asked."""
        connections = await self.connections(group)
        held: dict[MessageQueue, str] = {}
        members = connections.connection_set if connections is not None else []
        for client in members[:most]:
            try:
                running = await self.running(group, client.client_id)
            except RequestRejected:
                continue  # members of other kinds need not answer
            for key, state in running.mq_table.items():
                if not state.get("droped"):
                    held[queue_of(key)] = client.client_id
        return held, max(len(members) - most, 0)

    async def producers(self, broker: str | None = None) -> ProducerTable:
        """Live producers by group, over the masters."""
        merged: dict[str, dict[str, LiveProducer]] = {}
        for address in (await self._asking.chosen(broker)).values():
            answer = await self._asking.ask(address, RequestCode.GET_ALL_PRODUCER_INFO, what="table of producers")
            for group, members in ProducerTable.decode(answer.body).data.items():
                merged.setdefault(group, {}).update({member.client_id: member for member in members})
        return ProducerTable(data={group: list(merged[group].values()) for group in sorted(merged)})

    async def producers_of(self, address: str, group: str) -> int:
        """How many producers of a group are connected to one broker."""
        answer = await self._asking.ask(
            address, RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupOnly(producer_group=group),
            what=f"producers of group {group!r}", accept=(ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR),
        )  # fmt: skip
        if answer.code != ResponseCode.SUCCESS:
            return 0  # how brokers say: none
        return len(ProducerConnections.decode(answer.body).connection_set)

    # Where to go on.

    async def plan_reset(
        self, group: str, topic: str, target: Target, queues: Sequence[tuple[str, int]] = ()
    ) -> list[Step]:
        """What a reset would do, queue by queue. ``queues``: (broker name, queue id) pairs; empty: all of the topic."""
        system_topics.check_group(group)
        route = await self._asking.endpoint.routes.fetch(topic)
        chosen = [
            queue
            for queue in subscribe_queues(topic, route)
            if not queues or (queue.broker_name, queue.queue_id) in queues
        ]
        if not chosen:
            raise ConfigError(f"topic {topic!r} has no such queue; `gantry topic status {topic}` shows those it has")
        return [await self._step(group, queue, route, target) for queue in chosen]

    async def _step(self, group: str, queue: MessageQueue, route: TopicRoute, target: Target) -> Step:
        address = next(
            (
                b.broker_addrs[0]
                for b in route.broker_datas
                if b.broker_name == queue.broker_name and 0 in b.broker_addrs
            ),
            None,
        )
        if address is None:
            raise ConfigError(f"broker {queue.broker_name} has no master now; try again when it is back")
        topic, number, name = queue.topic, queue.queue_id, queue.broker_name
        header = QueryConsumerOffset(
            consumer_group=group, topic=topic, queue_id=number, set_zero_if_not_found=False, bname=name
        )
        answer = await self._asking.ask(
            address, RequestCode.QUERY_CONSUMER_OFFSET, header, what=f"offset of group {group!r} in {queue}",
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )  # fmt: skip
        before = answer.header(OffsetAnswer).offset if answer.code == ResponseCode.SUCCESS else None
        first = GetMinOffset(topic=topic, queue_id=number, bname=name)
        last = GetMaxOffset(topic=topic, queue_id=number, committed=True, bname=name)
        low = await self._offset(address, RequestCode.GET_MIN_OFFSET, first, queue)
        high = await self._offset(address, RequestCode.GET_MAX_OFFSET, last, queue)
        if target.offset is not None:
            after = min(max(target.offset, low), high)
        elif target.time_ms is not None:
            search = SearchOffset(topic=topic, queue_id=number, timestamp=target.time_ms, bname=name)
            after = await self._offset(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search, queue)
        else:
            after = low if target.edge == "earliest" else high
        return Step(queue=queue, address=address, before=before, after=after)

    async def _offset(
        self, address: str, code: RequestCode, header: GetMinOffset | GetMaxOffset | SearchOffset, queue: MessageQueue
    ) -> int:
        return (await self._asking.ask(address, code, header, what=f"offsets of {queue}")).header(OffsetAnswer).offset

    async def reset(self, group: str, steps: Sequence[Step], target: Target) -> str:
        """Carry a plan out; returns how it was done: ``members`` or ``offsets``.

        With members online the broker tells them (222); each goes on from the new place at once. Without, the stored
        offsets are changed (15). Raises ConfigError, before anything is done,
        when members are online whose brokers could tell them a time only.
        """
        if await self.connections(group) is None:
            for step in steps:
                header = UpdateConsumerOffset(
                    consumer_group=group, topic=step.queue.topic, queue_id=step.queue.queue_id,
                    commit_offset=step.after, bname=step.queue.broker_name,
                )  # fmt: skip
                await self._asking.ask(
                    step.address, RequestCode.UPDATE_CONSUMER_OFFSET, header, what=f"offset of group {group!r}"
                )
            return "offsets"
        await self._tell_members(group, steps, target)
        return "members"

    async def _tell_members(self, group: str, steps: Sequence[Step], target: Target) -> None:
        topic = steps[0].queue.topic
        time_ms = {"earliest": 0, "latest": -1}.get(target.edge or "", target.time_ms)
        whole = {(step.queue.broker_name, step.queue.queue_id) for step in steps}
        route = await self._asking.endpoint.routes.fetch(topic)
        everything = whole == {(queue.broker_name, queue.queue_id) for queue in subscribe_queues(topic, route)}
        for address in sorted({step.address for step in steps}):
            if time_ms is not None and everything:
                wanted = [ResetOffset(topic=topic, group=group, timestamp=time_ms, is_force=True)]
            else:
                await self._check_knows_offsets(address)
                wanted = [
                    ResetOffset(
                        topic=topic, group=group, timestamp=-1, is_force=True, queue_id=step.queue.queue_id,
                        offset=step.after,
                    )
                    for step in steps
                    if step.address == address
                ]  # fmt: skip
            for header in wanted:
                await self._asking.ask(
                    address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, what=f"reset of group {group!r}"
                )

    async def _check_knows_offsets(self, address: str) -> None:
        """4.x brokers ignore queue and offset of a reset: they would set every queue to its end."""
        answer = await self._asking.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, what="version of the broker")
        version = KVTable.decode(answer.body).table.get("brokerVersionDesc", "")
        if version.startswith(("V4", "V3")):
            raise ConfigError(
                f"the broker at {address} ({version}) can tell running members a time only, for all queues: reset the "
                "whole topic to earliest, latest or a time, or stop the members first; without them any offset goes"
            )
