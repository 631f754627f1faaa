"""One member of a consumer group: it announces its subscriptions, and shares the queues of its topics with the other
members.

Source: MQClientInstance, RebalanceImpl; docs/protocol.md#what-clients-send-and-when, docs/protocol.md#groups,
docs/protocol.md#sharing-queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.heartbeat import Heartbeats
from gantrymq.client.connection.routes import subscribe_queues
from gantrymq.client.consuming.assignment import assign_averagely
from gantrymq.client.consuming.filters import SQL92, Filter
from gantrymq.errors import Closed, ConfigError, GantryError, RequestRejected, RouteNotFound, Unreachable
from gantrymq.message.arguments import shown
from gantrymq.message.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.heartbeat import CheckClient, ConsumerIdList, HeartbeatData
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.consumer import ConsumerListByGroup
from gantrymq.remoting.channel import ClientChannel
from gantrymq.runtime.clock import time_limit

log = logging.getLogger("gantrymq.client")

UNBALANCED_PAUSE_S: Final = 0.5
"""How soon a rebalance is tried again while a route, a broker, a lock or the registration of this member is missing."""

Take = Callable[[str, set[MessageQueue]], Awaitable[bool]]
"""Called with a topic and the queues of it that this member is to read; returns False when it could not begin with all
of them yet."""


class GroupMember:
    """Membership of one group, for as long as the client runs.

    ``filters``: the subscription of each topic; entries may be added before ``join``. ``share``: if False, every member
    reads every queue (broadcasting).
    """

    def __init__(
        self,
        endpoint: Endpoint,
        group: str,
        filters: Mapping[str, Filter],
        take: Take,
        *,
        consume_type: ConsumeType,
        from_where: ConsumeFromWhere,
        share: bool,
        rebalance_interval_ms: int,
    ) -> None:
        if not isinstance(from_where, ConsumeFromWhere):
            raise ConfigError(f"from_where must be a ConsumeFromWhere, not {shown(from_where)}")
        self._endpoint = endpoint
        self._group = group
        self._filters = filters
        self._take = take
        self._consume_type = consume_type
        self._from_where = from_where
        self._share = share
        self._interval_s = rebalance_interval_ms / 1000
        self._heartbeats = Heartbeats(endpoint, self._beat, endpoint.routes.addresses)
        self._first_queues: dict[str, frozenset[MessageQueue]] = {}
        """The queues of each topic when this member started. Any other queue is new, so all its messages were sent
        later."""
        self._rebalance_now = asyncio.Event()
        self.started_ms = 0
        """When this member started, ms since 1970. It is also the version of the subscriptions."""

    def greet(self, channel: ClientChannel) -> None:
        """Send a heartbeat on a new connection to a broker."""
        self._heartbeats.greet(channel)

    def rebalance_soon(self) -> None:
        """Rebalance soon, because members have joined or left, or the queues of this member have changed."""
        self._rebalance_now.set()

    def is_new(self, queue: MessageQueue) -> bool:
        """Whether the queue did not exist when this member started."""
        known = self._first_queues.get(queue.topic)
        return known is None or queue not in known

    async def find_topics(self) -> None:
        """Look up the topics. Missing topics are found later. Raises Unreachable when no name server answers."""
        for topic in self._filters:
            try:
                self._first_queues[topic] = frozenset(subscribe_queues(topic, await self._endpoint.routes.fetch(topic)))
            except RouteNotFound:
                log.info("topic %s does not exist yet", topic)
        self.started_ms = self._endpoint.clock.wall_ms()

    async def join(self) -> None:
        """Join the group and begin to read this member's share of the queues. Rebalancing continues until the endpoint
        is closed.

        Raises Closed when the endpoint is closed meanwhile, and then starts no task that would not be ended.
        """
        for topic, wanted in self._filters.items():
            await self.check_expression(topic, wanted)
        await self._heartbeats.send()
        self._endpoint.check_usable()
        self._heartbeats.start()
        balanced = await self._rebalance()
        self._endpoint.check_usable()
        self._endpoint.tasks.start("rebalance", self._rebalance_forever(balanced))

    async def leave(self) -> None:
        await self._heartbeats.unregister(consumer_group=self._group)

    async def check_expression(self, topic: str, wanted: Filter) -> None:
        """Let a broker of the topic check the SQL expression. Raises RequestRejected when the broker refuses it."""
        route = self._endpoint.routes.known(topic)
        if wanted.kind != SQL92 or route is None:
            return
        for data in route.queue_datas:
            address = self._endpoint.routes.readable(data.broker_name)
            if address is None:
                continue
            # The connection comes first, because the client id is known from the first connection on.
            await self._endpoint.channel(address, self._endpoint.config.call_timeout_ms)
            question = CheckClient(
                client_id=self._endpoint.client_id,
                group=self._group,
                subscription_data=wanted.subscription(topic, self.started_ms),
            )
            answer = await self._endpoint.call(address, RequestCode.CHECK_CLIENT_CONFIG, None, question.encode())
            if answer.code != ResponseCode.SUCCESS:
                what = f"subscription to {topic!r} by SQL"
                raise RequestRejected(answer.code, answer.remark, request=what, address=address)
            return

    async def _rebalance_forever(self, balanced: bool) -> None:
        while True:
            try:
                async with time_limit(self._endpoint.clock, self._interval_s if balanced else UNBALANCED_PAUSE_S):
                    await self._rebalance_now.wait()
            except TimeoutError:
                pass
            self._rebalance_now.clear()
            balanced = await self._rebalance()

    async def _rebalance(self) -> bool:
        """Compute this member's share of every topic; False when something is missing."""
        results = [await self._rebalance_topic(topic) for topic in self._filters]
        return all(results)

    async def _rebalance_topic(self, topic: str) -> bool:
        try:
            route = await self._endpoint.routes.get(topic)
            queues = subscribe_queues(topic, route)
            if not self._share:
                return await self._take(topic, set(queues))
            members = await self._members({data.broker_name for data in route.queue_datas})
            client_id = self._endpoint.client_id
            if client_id not in members:
                return False  # the broker has not got our heartbeat yet; this member keeps the queues that it reads
            return await self._take(topic, set(assign_averagely(client_id, members, queues)))
        except GantryError as error:
            if isinstance(error, Closed):
                raise
            log.info("sharing out %s: %s", topic, error)
            return False

    async def _members(self, broker_names: Iterable[str]) -> list[str]:
        """The client ids of the group's members, from any broker of the topic."""
        error: GantryError = Unreachable(self._group, "no broker of the topic has an address")
        for broker_name in sorted(broker_names, key=lambda _: self._endpoint.rng.random()):
            address = self._endpoint.routes.readable(broker_name)
            if address is None:
                continue
            try:
                answer = await self._endpoint.call(
                    address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerListByGroup(consumer_group=self._group)
                )
            except GantryError as failure:
                error = failure
                continue
            if answer.code == ResponseCode.SUCCESS:
                return ConsumerIdList.decode(answer.body).consumer_id_list
            error = RequestRejected(answer.code, answer.remark, request="list of consumers", address=address)
        raise error

    def _beat(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self._endpoint.client_id,
            consumer_data_set=[
                ConsumerData(
                    group_name=self._group,
                    consume_type=self._consume_type,
                    message_model=MessageModel.CLUSTERING if self._share else MessageModel.BROADCASTING,
                    consume_from_where=self._from_where,
                    subscription_data_set=[
                        wanted.subscription(topic, self.started_ms) for topic, wanted in self._filters.items()
                    ],
                    unit_mode=False,
                )
            ],
        )
