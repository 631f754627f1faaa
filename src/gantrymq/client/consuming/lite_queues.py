"""The queues that a lite pull consumer reads: it starts and stops reading them, and takes messages from them in turn.

Source: DefaultLitePullConsumerImpl; docs/protocol.md#what-clients-send-and-when.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gantrymq.client.config import LitePullConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.consuming.broker_questions import JAVA_VERSION, BrokerQuestions
from gantrymq.client.consuming.filters import Filter
from gantrymq.client.consuming.group_member import GroupMember
from gantrymq.client.consuming.lite_queue import LiteQueue
from gantrymq.client.consuming.offset_store import BrokerOffsetStore
from gantrymq.client.consuming.send_back import SendBacks
from gantrymq.client.consuming.start_offset import HALF_AN_HOUR_MS, first_offset
from gantrymq.client.metrics.figures import Backlog, ClientFigures, while_it_lives
from gantrymq.errors import ConfigError
from gantrymq.message.heartbeat import ConsumeFromWhere, ConsumeType
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.progress import ConsumedDirectly, ConsumerRunning, key_of
from gantrymq.runtime.clock import time_limit

NO_LISTENER: Final = "this consumer polls; it has no listener that could consume a message at the request of a tool"


class LiteQueues:
    """The queues of one lite pull consumer."""

    def __init__(
        self,
        endpoint: Endpoint,
        config: LitePullConfig,
        group: str,
        from_where: ConsumeFromWhere,
        filters: Mapping[str, Filter],
        figures: ClientFigures,
    ) -> None:
        self._figures = figures
        figures.backlogs = while_it_lives(self)
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
        self.progress = BrokerOffsetStore(endpoint, group)
        self.questions = BrokerQuestions(endpoint, self, config.max_body_bytes)
        self._send_backs = SendBacks(endpoint, group, -1)
        self._reading: dict[MessageQueue, LiteQueue] = {}
        self._handed: LiteQueue | None = None
        """The queue whose messages the last poll returned."""
        self._assignments = 0
        self._polling = False
        self._turn = 0
        self._arrived = asyncio.Event()

    def queues(self) -> list[MessageQueue]:
        return sorted(self._reading)

    def backlogs(self) -> list[Backlog]:
        """What waits in each queue."""
        return [reader.backlog for reader in list(self._reading.values())] if self._endpoint.running else []

    def stop(self) -> None:
        """Stop pulling, and end a ``take`` that waits for messages."""
        for reader in self._reading.values():
            reader.stop()
        self._arrived.set()

    # Which queues. A queue is given up without any await: once another member has it, this one must store no progress.

    async def _take_over(self, topic: str, mine: set[MessageQueue]) -> bool:
        for queue in [queue for queue in self._reading if queue.topic == topic and queue not in mine]:
            self._give_up(queue)
        for queue in sorted(mine - self._reading.keys()):
            self._begin(queue, self._filters[topic], await self._start_of(queue))
        return True

    async def assign(self, queues: set[MessageQueue], wanted: Filter) -> None:
        """Read exactly these queues, even if other members read them too. When this fails or is cancelled, nothing has
        changed. When it is called again meanwhile, the later call counts."""
        self._assignments += 1
        mine = self._assignments
        for topic in {queue.topic for queue in queues}:
            await self._endpoint.routes.get(topic)
            await self.member.check_expression(topic, wanted)
        starts = {queue: await self._start_of(queue) for queue in sorted(queues - self._reading.keys())}
        if self._assignments != mine:
            return
        for queue in [queue for queue in self._reading if queue not in queues]:
            self._give_up(queue)
        for queue, start in starts.items():
            self._begin(queue, wanted, start)

    async def _start_of(self, queue: MessageQueue) -> QueueOffset:
        return await first_offset(
            self._endpoint,
            self.progress,
            queue,
            self._from_where,
            new=bool(self._filters) and self.member.is_new(queue),
            timestamp_ms=self._config.timestamp_ms or self.member.started_ms - HALF_AN_HOUR_MS,
        )

    async def _set_aside(self, view: MessageView) -> None:
        """A message whose body is too large to be decompressed."""
        await self._send_backs.set_aside(view, self._config.max_body_bytes)

    def _begin(self, queue: MessageQueue, wanted: Filter, start: QueueOffset) -> None:
        if queue in self._reading or not self._endpoint.running:
            return
        reader = LiteQueue(
            self._endpoint, self._config, self._group, queue, wanted, start, self._arrived.set,
            self._set_aside, self._figures.of_reads(queue.topic),
        )  # fmt: skip
        self._reading[queue] = reader
        if self._config.auto_commit:
            self._store_now(reader)  # otherwise the next owner might begin after messages that are sent from now on
        reader.start()

    def _give_up(self, queue: MessageQueue) -> None:
        reader = self._reading.pop(queue)
        reader.stop()
        if self._config.auto_commit:
            self._store_now(reader)

    # Messages.

    @contextlib.contextmanager
    def one_poll(self) -> Iterator[None]:
        """A context manager around each poll. On entry the messages of the poll before become consumed. Raises
        ConfigError while another poll is inside."""
        if self._polling:
            raise ConfigError("another task or thread is polling this consumer; only one may poll at a time")
        self._polling = True
        try:
            if self._handed is not None:
                self._handed.settle()
                self._handed = None
            yield
        finally:
            self._polling = False

    async def take(self, timeout_ms: int) -> list[MessageView]:
        """Messages of the next queue that has some; empty when no queue has any in time. There is no await after they
        are taken, so a cancellation cannot lose them."""
        clock = self._endpoint.clock
        deadline = clock.monotonic() + timeout_ms / 1000
        while True:
            self._arrived.clear()
            taken = self._next()
            remaining_s = deadline - clock.monotonic()
            if taken or remaining_s <= 0:
                return taken
            try:
                async with time_limit(clock, remaining_s):
                    await self._arrived.wait()
            except TimeoutError:
                return self._next()
            self._endpoint.check_usable()

    def _next(self) -> list[MessageView]:
        readers = list(self._reading.values())
        for step in range(len(readers)):
            reader = readers[(self._turn + step) % len(readers)]
            if reader.waiting:
                self._turn = (self._turn + step + 1) % len(readers)
                self._handed = reader
                return reader.take(self._config.poll_batch_size)
        return []

    def give_back_last(self) -> None:
        """The messages of the last poll did not reach the program: the next poll of their queue begins with them."""
        reader, self._handed = self._handed, None
        if reader is not None and self._is_ours(reader):
            reader.give_back()

    def pause(self, queues: Iterable[MessageQueue], paused: bool) -> None:
        for reader in [self._mine(queue) for queue in queues]:  # all of them, or none
            reader.pause(paused)

    def seek(self, queue: MessageQueue, offset: QueueOffset) -> None:
        self._mine(queue).seek(offset)

    def _mine(self, queue: MessageQueue) -> LiteQueue:
        reader = self._reading.get(queue)
        if reader is None:
            raise ConfigError(f"{queue} is not read by this consumer; ``assigned`` lists its queues")
        return reader

    # Progress.

    def store_now(self) -> None:
        """Send to the brokers the progress that has changed, one-way, where there is a connection."""
        for reader in self._reading.values():
            self._store_now(reader)

    def _store_now(self, reader: LiteQueue) -> None:
        offset = reader.committable
        if reader.stored != offset and self.progress.keep_now(reader.queue, offset):
            reader.stored = offset

    async def store(self) -> None:
        """Like ``store_now``, but make connections that are missing."""
        self.store_now()
        for reader in list(self._reading.values()):
            offset = reader.committable
            if reader.stored != offset and self._is_ours(reader) and await self.progress.keep(reader.queue, offset):
                reader.stored = offset

    async def commit(self, offsets: Mapping[MessageQueue, int] | None) -> None:
        """Store ``offsets``, or the progress of all queues, and wait until the brokers have confirmed it.

        A queue that is given up meanwhile is left out, unless ``offsets`` names it: its new owner stores a progress of
        its own.
        """
        if offsets is not None:
            for queue, offset in offsets.items():
                await self._confirm(queue, QueueOffset(offset), self._reading.get(queue))
            return
        for reader in list(self._reading.values()):
            if self._is_ours(reader):
                await self._confirm(reader.queue, reader.position, reader)

    async def _confirm(self, queue: MessageQueue, offset: QueueOffset, reader: LiteQueue | None) -> None:
        await self.progress.confirm(queue, offset)
        if reader is not None:
            reader.stored = offset
            reader.settle(offset)

    def _is_ours(self, reader: LiteQueue) -> bool:
        return self._reading.get(reader.queue) is reader

    # Requests of brokers; see AskedConsumer.

    def rebalance_soon(self) -> None:
        """Share out the queues anew."""
        self.member.rebalance_soon()

    def positions(self, topic: str) -> Mapping[MessageQueue, QueueOffset]:
        """The progress in each queue of a topic that this member reads. ``topic``: the name that brokers know."""
        return {queue: reader.committable for queue, reader in self._reading.items() if queue.topic == topic}

    async def go_to(self, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Continue at other offsets in those of the queues that this member reads."""
        for queue, reader in [(queue, self._reading[queue]) for queue in offsets if queue in self._reading]:
            reader.seek(offsets[queue])
            self._store_now(reader)

    async def consume_directly(self, view: MessageView) -> ConsumedDirectly:
        """Answer that a lite pull consumer has no listener to do this."""
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
                    "commitOffset": reader.committable,
                    "cachedMsgCount": reader.waiting,
                    "locked": False,
                    "droped": False,
                    "lastPullTimestamp": reader.pulled_ms,
                }
                for queue, reader in sorted(self._reading.items())
            },
            status_table={},
        )
