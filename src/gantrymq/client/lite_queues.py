"""The queues that a lite pull consumer reads: begun, given up, taken from in turns.

Source: DefaultLitePullConsumerImpl; wire-protocol.md 2.4.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from gantrymq.client.broker_questions import JAVA_VERSION, BrokerQuestions
from gantrymq.client.config import LitePullConfig
from gantrymq.client.endpoint import Endpoint
from gantrymq.client.filters import Filter
from gantrymq.client.group_member import GroupMember
from gantrymq.client.lite_queue import LiteQueue
from gantrymq.client.progress import BrokerProgress
from gantrymq.client.start_offset import HALF_AN_HOUR_MS, first_offset
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.heartbeat import ConsumeFromWhere, ConsumeType
from gantrymq.protocol.bodies.progress import ConsumedDirectly, ConsumerRunning, key_of

NO_LISTENER: Final = "this consumer is polled; it has no listener that could consume a message directly"


class LiteQueues:
    """What one lite pull consumer reads."""

    def __init__(
        self,
        endpoint: Endpoint,
        config: LitePullConfig,
        group: str,
        from_where: ConsumeFromWhere,
        filters: Mapping[str, Filter],
    ) -> None:
        self._endpoint = endpoint
        self._config = config
        self._group = group
        self._from_where = from_where
        self._filters = filters
        self.member = GroupMember(
            endpoint, group, filters, self._take_over,
            consume_type=ConsumeType.PULL, from_where=from_where, share=True,
            rebalance_interval_ms=config.rebalance_interval_ms,
        )  # fmt: skip
        self.progress = BrokerProgress(endpoint, group)
        self.questions = BrokerQuestions(endpoint, self)
        self._reading: dict[MessageQueue, LiteQueue] = {}
        self._stored: dict[MessageQueue, QueueOffset] = {}
        self._turn = 0
        self._arrived = asyncio.Event()

    def queues(self) -> list[MessageQueue]:
        return sorted(self._reading)

    def stop(self) -> None:
        """Pull nothing more."""
        for reader in self._reading.values():
            reader.stop()

    # Which.

    async def _take_over(self, topic: str, mine: set[MessageQueue]) -> bool:
        await self._read({queue for queue in self._reading if queue.topic != topic} | mine, self._filters[topic])
        return True

    async def assign(self, queues: set[MessageQueue], wanted: Filter) -> None:
        """Read exactly these, whoever else does."""
        for topic in {queue.topic for queue in queues}:
            await self._endpoint.routes.get(topic)
            await self.member.check_expression(topic, wanted)
        await self._read(queues, wanted)

    async def _read(self, queues: set[MessageQueue], wanted: Filter) -> None:
        for queue in [queue for queue in self._reading if queue not in queues]:
            reader = self._reading.pop(queue)
            reader.stop()
            if self._config.auto_commit:
                await self._store(reader)
            self._stored.pop(queue, None)
        for queue in sorted(queues - self._reading.keys()):
            start = await first_offset(
                self._endpoint,
                self.progress,
                queue,
                self._from_where,
                new=bool(self._filters) and self.member.is_new(queue),
                timestamp_ms=self._config.timestamp_ms or self.member.started_ms - HALF_AN_HOUR_MS,
            )
            if queue in self._reading or not self._endpoint.running:
                continue
            reader = LiteQueue(self._endpoint, self._config, self._group, queue, wanted, start, self._arrived.set)
            self._reading[queue] = reader
            reader.start()

    # Messages.

    async def take(self, timeout_ms: int) -> list[MessageView]:
        """Messages of the next queue that has some; empty when none has within the time."""
        clock = self._endpoint.clock
        deadline = clock.monotonic() + timeout_ms / 1000
        while True:
            self._arrived.clear()
            taken = self._next()
            remaining_s = deadline - clock.monotonic()
            if taken or remaining_s <= 0:
                return taken
            try:
                async with asyncio.timeout(remaining_s):
                    await self._arrived.wait()
            except TimeoutError:
                return self._next()

    def _next(self) -> list[MessageView]:
        readers = list(self._reading.values())
        for step in range(len(readers)):
            reader = readers[(self._turn + step) % len(readers)]
            if reader.waiting:
                self._turn = (self._turn + step + 1) % len(readers)
                return reader.take(self._config.poll_batch_size)
        return []

    def pause(self, queues: Iterable[MessageQueue], paused: bool) -> None:
        for queue in queues:
            self._mine(queue).pause(paused)

    def seek(self, queue: MessageQueue, offset: QueueOffset) -> None:
        self._mine(queue).seek(offset)

    def _mine(self, queue: MessageQueue) -> LiteQueue:
        reader = self._reading.get(queue)
        if reader is None:
            raise ConfigError(f"{queue} is not read by this consumer now; see ``assigned``")
        return reader

    # Progress.

    async def store(self) -> None:
        """Tell the brokers how far we are, where that changed; one-way."""
        for reader in list(self._reading.values()):
            await self._store(reader)

    async def _store(self, reader: LiteQueue) -> None:
        queue, position = reader.queue, reader.position
        if self._stored.get(queue) != position and await self.progress.keep(queue, position):
            self._stored[queue] = position

    async def commit(self, offsets: Mapping[MessageQueue, int] | None) -> None:
        """Store these, or how far we are, and wait until the brokers have confirmed it."""
        if offsets is None:
            offsets = {queue: reader.position for queue, reader in self._reading.items()}
        for queue, offset in offsets.items():
            await self.progress.confirm(queue, QueueOffset(offset))
            self._stored[queue] = QueueOffset(offset)

    # What brokers ask; see AskedConsumer.

    def rebalance_soon(self) -> None:
        """Share out the queues anew."""
        self.member.rebalance_soon()

    def positions(self, topic: str) -> Mapping[MessageQueue, QueueOffset]:
        """How far each queue of a topic is that this member reads (as brokers name the topic)."""
        return {queue: reader.position for queue, reader in self._reading.items() if queue.topic == topic}

    async def go_to(self, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Go on at other offsets in those queues that are ours."""
        for queue in [queue for queue in offsets if queue in self._reading]:
            self._reading[queue].seek(offsets[queue])
            await self.progress.keep(queue, offsets[queue])

    async def consume_directly(self, view: MessageView) -> ConsumedDirectly:
        """Say that this cannot be done here."""
        return ConsumedDirectly(consume_result="CR_THROW_EXCEPTION", remark=NO_LISTENER)

    def running(self) -> ConsumerRunning:
        """This member in the terms of ``mqadmin consumerStatus``."""
        return ConsumerRunning(
            properties={
                "PROP_NAMESERVER_ADDR": ";".join(self._config.name_servers) + ";",
                "PROP_CONSUME_TYPE": ConsumeType.PULL.value,
                "PROP_CONSUMEORDERLY": "false",
                "PROP_THREADPOOL_CORE_SIZE": "1",
                "PROP_CLIENT_VERSION": JAVA_VERSION,
                "PROP_CONSUMER_START_TIMESTAMP": str(self.member.started_ms),
                "consumerGroup": self._group,
            },
            subscription_set=[
                wanted.subscription(topic, self.member.started_ms) for topic, wanted in sorted(self._filters.items())
            ],
            mq_table={
                key_of(queue): {
                    "commitOffset": reader.position,
                    "cachedMsgCount": reader.waiting,
                    "locked": False,
                    "droped": False,
                    "lastPullTimestamp": reader.pulled_ms,
                }
                for queue, reader in sorted(self._reading.items())
            },
            status_table={},
        )
