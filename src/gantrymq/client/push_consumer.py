"""Has messages delivered to a listener, sharing the queues with the other members of its group.

Source: DefaultMQPushConsumerImpl, RebalanceImpl; wire-protocol.md 2.4.2, 6.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self, Unpack

from gantrymq.client.assignment import assign_averagely
from gantrymq.client.config import PushConfig, PushSettings, settings_of
from gantrymq.client.consume_pool import ConsumePool, MessageListener, consume_pool
from gantrymq.client.endpoint import Doors, Endpoint, decline, every
from gantrymq.client.heartbeat import Heartbeats
from gantrymq.client.push_queue import PushQueue
from gantrymq.client.routes import subscribe_queues
from gantrymq.client.send_back import SendBacks
from gantrymq.client.start_offset import first_offset
from gantrymq.errors import Closed, ConfigError, GantryError, RequestRejected, RouteNotFound, Unreachable
from gantrymq.message import system_topics
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumerIdList,
    HeartbeatData,
    SubscriptionData,
)
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.consumer import ConsumerListByGroup
from gantrymq.remoting.channel import ClientChannel

log = logging.getLogger("gantrymq.client")

UNBALANCED_PAUSE_S: Final = 0.5
"""How soon sharing out is tried again while something is missing: a route, a broker, our own registration."""
GIVE_BACK_PAUSE_S: Final = 5.0
"""When messages that nobody took back are consumed again here, as in Apache's client."""


class PushConsumer:
    """Delivers the messages of its subscriptions to a listener, at least once.

    All members of a group share the queues of a topic; their subscriptions must be the same. The listener gets lists
    of up to ``consume_batch_size`` messages, in ``consume_threads`` threads (or, when it is ``async def``, as that
    many tasks). When it returns (None or CONSUME_SUCCESS) they are consumed; when it raises or returns RECONSUME_LATER
    they come again later: after 10 s, 30 s, 1 min ..., and after ``max_reconsume_times`` to the dead-letter topic
    ``%DLQ%<group>``. Messages can come twice (after a crash, or when queues change hands), so make it idempotent.

    A message sent after ``start`` has returned is not missed, also in a topic made later. Belongs to the event loop
    and process it was started in.
    """

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        listener: MessageListener,
        from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        doors: Doors | None = None,
        **settings: Unpack[PushSettings],
    ) -> None:
        """``from_where``: where the group begins in queues it has never read. ``settings``: fields of PushConfig."""
        system_topics.check_group(group)
        if not callable(listener):
            raise ConfigError("the listener must be callable: a function that gets a list of messages")
        self.group = group
        self._listener = listener
        self._from_where = from_where
        self._config = settings_of(PushConfig, name_servers, settings)
        self._endpoint = Endpoint(
            type(self).__name__, self._config, doors or Doors(), pushes=self._pushed, greet=self._greet
        )
        self._heartbeats = Heartbeats(self._endpoint, self._beat, self._endpoint.routes.addresses)
        self._send_backs = SendBacks(self._endpoint, group, self._config.max_reconsume_times)
        self._subscriptions: dict[str, str] = {}
        self._first_queues: dict[str, frozenset[MessageQueue]] = {}
        """The queues a topic had when we started; later ones are new, so all they hold was sent after that."""
        self._reading: dict[MessageQueue, tuple[PushQueue, asyncio.Task[None]]] = {}
        self._pool: ConsumePool[PushQueue] | None = None
        self._rebalance_now = asyncio.Event()
        self._started_ms = 0

    def subscribe(self, topic: str, tags: str = "*") -> Self:
        """Read ``topic``; ``tags``: ``"*"`` for all messages, or ``"A || B"``. Before ``start``."""
        if self._endpoint.running:
            raise ConfigError("subscribe before start; a running consumer keeps its subscriptions")
        system_topics.check_topic(topic)
        self._subscriptions[topic] = tags
        return self

    async def start(self) -> None:
        """Join the group and begin to read. Raises ConfigError without a subscription, Unreachable without a name
        server. Brokers and topics may be missing: they are read as soon as they are there."""
        if self._endpoint.running:
            return
        if not self._subscriptions:
            raise ConfigError("nothing is subscribed; call subscribe(topic) before start")
        self._endpoint.start()
        try:
            await self._find_topics()
        except BaseException:
            await self._endpoint.close()
            raise
        self._started_ms = self._endpoint.clock.wall_ms()
        self._subscriptions.setdefault(system_topics.retry_topic(self.group), "*")
        self._pool = consume_pool(
            self._listener, self._config.consume_threads, lambda queue: not queue.dropped, self._consumed
        )
        await self._heartbeats.send()
        self._heartbeats.start()
        balanced = await self._rebalance()
        tasks = self._endpoint.tasks
        tasks.start("rebalance", self._rebalance_forever(balanced))
        tasks.start("progress", every(self._endpoint.clock, self._config.persist_interval_ms, self._store, "progress"))

    async def close(self) -> None:
        """Stop reading, let listeners at work end (``close_timeout_ms`` at most), store the progress, leave the group.

        What was pulled but not begun is delivered again, here or elsewhere. May be called again.
        """
        if not self._endpoint.running:
            return
        self._endpoint.stop_accepting()
        for _, task in self._reading.values():
            task.cancel()
        if self._pool is not None:
            self._pool.close()
            pool = self._pool
            await self._endpoint.drain(lambda: pool.running == 0, self._config.close_timeout_ms)
        await self._store()
        await self._heartbeats.unregister(consumer_group=self.group)
        await self._endpoint.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """How brokers name this client; empty before the first connection."""
        return self._endpoint.client_id

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues this member reads now, retry topic included."""
        return sorted(self._reading)

    # Sharing out.

    async def _find_topics(self) -> None:
        for topic in self._subscriptions:
            try:
                self._first_queues[topic] = frozenset(subscribe_queues(topic, await self._endpoint.routes.fetch(topic)))
            except RouteNotFound:
                log.info("topic %s does not exist yet", topic)

    async def _rebalance_forever(self, balanced: bool) -> None:
        while True:
            pause = self._config.rebalance_interval_ms / 1000 if balanced else UNBALANCED_PAUSE_S
            try:
                async with asyncio.timeout(pause):
                    await self._rebalance_now.wait()
            except TimeoutError:
                pass
            self._rebalance_now.clear()
            balanced = await self._rebalance()

    async def _rebalance(self) -> bool:
        """Share out every topic; False when something was missing."""
        results = [await self._rebalance_topic(topic) for topic in self._subscriptions]
        return all(results)

    async def _rebalance_topic(self, topic: str) -> bool:
        try:
            route = await self._endpoint.routes.get(topic)
            queues = subscribe_queues(topic, route)
            members = await self._members({data.broker_name for data in route.queue_datas})
            if self.client_id not in members:
                return False  # our heartbeat is still under way; what we read so far stays ours
            await self._take(topic, set(assign_averagely(self.client_id, members, queues)))
        except GantryError as error:
            if isinstance(error, Closed):
                raise
            log.info("sharing out %s: %s", topic, error)
            return False
        return True

    async def _members(self, broker_names: Iterable[str]) -> list[str]:
        """The client ids of the group's members, from any broker of the topic."""
        error: GantryError = Unreachable(self.group, "no broker of the topic has an address")
        for broker_name in sorted(broker_names, key=lambda _: self._endpoint.rng.random()):
            address = self._endpoint.routes.readable(broker_name)
            if address is None:
                continue
            try:
                answer = await self._endpoint.call(
                    address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerListByGroup(consumer_group=self.group)
                )
            except GantryError as failure:
                error = failure
                continue
            if answer.code == ResponseCode.SUCCESS:
                return ConsumerIdList.decode(answer.body).consumer_id_list
            error = RequestRejected(answer.code, answer.remark, request="list of consumers", address=address)
        raise error

    async def _take(self, topic: str, mine: set[MessageQueue]) -> None:
        for queue in [queue for queue in self._reading if queue.topic == topic and queue not in mine]:
            await self._drop(queue)
        for queue in sorted(mine - self._reading.keys()):
            known = self._first_queues.get(topic)
            start = await first_offset(
                self._endpoint,
                self.group,
                queue,
                self._from_where,
                new=known is None or queue not in known,
                timestamp_ms=self._config.timestamp_ms or self._started_ms - 30 * 60_000,
            )
            self._begin(queue, start)

    def _begin(self, queue: MessageQueue, start: QueueOffset) -> None:
        if self._pool is None or not self._endpoint.running:
            return
        log.info("%s reads %s from offset %d", self.group, queue, start)
        reader = PushQueue(
            self._endpoint, self._config, self.group, queue, self._subscriptions[queue.topic], start,
            self._pool.put, self._moved,
        )  # fmt: skip
        self._reading[queue] = (reader, self._endpoint.tasks.start(f"read {queue}", reader.run()))

    async def _drop(self, queue: MessageQueue) -> None:
        reader, task = self._reading.pop(queue)
        log.info("%s gives up %s", self.group, queue)
        reader.dropped = True
        task.cancel()
        await reader.store_offset()

    def _moved(self, reader: PushQueue, offset: QueueOffset) -> None:
        self._reading.pop(reader.queue, None)
        self._begin(reader.queue, offset)

    # Consuming.

    def _consumed(self, reader: PushQueue, batch: list[MessageView], consumed: bool) -> None:
        if reader.dropped:
            return
        if consumed:
            reader.finish(batch)
        elif self._endpoint.running:
            self._endpoint.tasks.start("give back", self._give_back(reader, batch))

    async def _give_back(self, reader: PushQueue, batch: list[MessageView]) -> None:
        kept: list[MessageView] = []
        for view in batch:
            try:
                await self._send_backs.give_back(view)
                reader.finish([view])
            except GantryError as error:
                log.warning("message %s could not be given back; it is consumed again here: %s", view.message_id, error)
                kept.append(view)
        if kept:
            await self._endpoint.clock.sleep(GIVE_BACK_PAUSE_S)
            if self._pool is not None and not reader.dropped:
                self._pool.put(reader, kept)

    async def _store(self) -> None:
        for reader, _ in list(self._reading.values()):
            await reader.store_offset()

    # Membership.

    def _beat(self) -> HeartbeatData:
        subscriptions = [
            SubscriptionData.of_tags(topic, tags, self._started_ms) for topic, tags in self._subscriptions.items()
        ]
        return HeartbeatData(
            client_id=self.client_id,
            consumer_data_set=[
                ConsumerData(
                    group_name=self.group,
                    consume_from_where=self._from_where,
                    subscription_data_set=subscriptions,
                    unit_mode=False,
                )
            ],
        )

    def _greet(self, channel: ClientChannel) -> None:
        self._heartbeats.greet(channel)

    def _pushed(self, channel: ClientChannel, command: Command) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._rebalance_now.set()
        else:
            decline(channel, command)
