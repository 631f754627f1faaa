"""The queues that are assigned to a push consumer. AssignedQueues starts and stops reading them, resets their offsets,
and answers questions of brokers about them.

Source: RebalancePushImpl, DefaultMQPushConsumerImpl; docs/protocol.md#what-clients-send-and-when,
docs/protocol.md#groups.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from gantrymq.client.config import PushConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.consuming.broker_questions import JAVA_VERSION, consumed_directly, queue_state
from gantrymq.client.consuming.concurrent_consumption import ConcurrentConsumption
from gantrymq.client.consuming.filters import Filter
from gantrymq.client.consuming.group_member import GroupMember
from gantrymq.client.consuming.offset_store import BrokerOffsetStore, FileOffsetStore, OffsetStore
from gantrymq.client.consuming.orderly_consumption import OrderlyConsumption
from gantrymq.client.consuming.push_queue import PushQueue
from gantrymq.client.consuming.queue_locks import QueueLocks
from gantrymq.client.consuming.send_back import SendBacks
from gantrymq.client.consuming.start_offset import HALF_AN_HOUR_MS, first_offset
from gantrymq.client.message_listener import MessageListener
from gantrymq.client.metrics.figures import Backlog, ClientFigures, while_it_lives
from gantrymq.client.tracing.watch import Watch
from gantrymq.message.heartbeat import ConsumeFromWhere, ConsumeType
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.progress import ConsumedDirectly, ConsumerRunning, key_of
from gantrymq.runtime.disk import Disk

log = logging.getLogger("gantrymq.client")


class AssignedQueues:
    """Reads the queues that are assigned to its ``member``, and hands their messages to the ``listener``."""

    def __init__(
        self,
        endpoint: Endpoint,
        config: PushConfig,
        group: str,
        listener: MessageListener,
        from_where: ConsumeFromWhere,
        filters: Mapping[str, Filter],
        disk: Disk,
        watch: Watch | None,
        figures: ClientFigures,
    ) -> None:
        """``group``: the name that brokers know. ``watch``: it has wrapped the listener already."""
        self._endpoint = endpoint
        self._figures = figures
        figures.backlogs = while_it_lives(self)
        self._config = config
        self._group = group
        self._listener = listener
        self._from_where = from_where
        self._filters = filters
        self._disk = disk
        self.member = GroupMember(
            endpoint, group, filters, self._take,
            consume_type=ConsumeType.PUSH, from_where=from_where, share=not config.broadcasting,
            rebalance_interval_ms=config.rebalance_interval_ms,
        )  # fmt: skip
        self._send_backs = (
            None if config.broadcasting else SendBacks(endpoint, group, config.max_reconsume_times, watch)
        )
        self._locks = QueueLocks(endpoint, group) if config.orderly and not config.broadcasting else None
        self._reading: dict[MessageQueue, tuple[PushQueue, asyncio.Task[None]]] = {}
        self._leaving: set[MessageQueue] = set()
        """Queues that this member has given up, while the listener is still at work on their last messages."""
        self._consumption: ConcurrentConsumption | OrderlyConsumption | None = None
        self._progress: OffsetStore = BrokerOffsetStore(endpoint, group)

    def open(self) -> None:
        """Prepare the threads of the listener. Call this on the event loop on which the messages arrive."""
        config, endpoint = self._config, self._endpoint
        threads, size = config.consume_threads, config.consume_batch_size
        endpoint.listeners.append(lambda: 0 if self._consumption is None else self._consumption.in_threads)
        if not config.orderly:
            self._consumption = ConcurrentConsumption(endpoint, self._listener, threads, size, self._send_backs)
            return
        locks = self._locks
        self._consumption = OrderlyConsumption(
            endpoint, self._listener, threads, size, self._send_backs,
            max_reconsume_times=config.max_reconsume_times, suspend_ms=config.suspend_ms,
            held=locks.usable if locks is not None else lambda queue: True,
        )  # fmt: skip

    def stop(self) -> None:
        """Stop pulling messages and calling the listener."""
        for _, task in self._reading.values():
            task.cancel()
        if self._consumption is not None:
            self._consumption.close()

    @property
    def idle(self) -> bool:
        """Whether no call of the listener is running."""
        return self._consumption is None or self._consumption.running == 0

    def excuse(self) -> None:
        """If this is called from inside a listener, that listener no longer counts as running."""
        if self._consumption is not None:
            self._consumption.excuse()

    async def unlock(self) -> None:
        """Release the locks of all queues, so that other members can read them."""
        if self._locks is not None:
            await self._locks.close()

    def queues(self) -> list[MessageQueue]:
        return sorted(self._reading)

    def backlogs(self) -> list[Backlog]:
        """What waits in each queue."""
        return [reader.backlog for reader, _ in list(self._reading.values())] if self._endpoint.running else []

    async def _take(self, topic: str, mine: set[MessageQueue]) -> bool:
        if not self._endpoint.client_id:
            return False  # the progress file and the locks of this member are named after the client id
        for queue in [queue for queue in self._reading if queue.topic == topic and queue not in mine]:
            self._drop(queue)
        wanted = mine - self._reading.keys() - self._leaving
        begin = await self._locks.take(wanted) if self._locks is not None else wanted
        for queue in sorted(begin):
            start = await first_offset(
                self._endpoint,
                self._kept(),
                queue,
                self._from_where,
                new=self.member.is_new(queue),
                timestamp_ms=self._config.timestamp_ms or self.member.started_ms - HALF_AN_HOUR_MS,
            )
            self._begin(queue, start)
        return begin == mine - (self._reading.keys() - begin)

    def _kept(self) -> OffsetStore:
        if self._config.broadcasting and not isinstance(self._progress, FileOffsetStore):
            # Not before: the name of the file contains the client id, which is known from the first connection on.
            self._progress = FileOffsetStore(self._disk, self._config.offset_dir, self._endpoint.client_id, self._group)
        return self._progress

    def _begin(self, queue: MessageQueue, start: QueueOffset) -> None:
        if self._consumption is None or not self._endpoint.running or queue in self._reading:
            return
        log.info("%s reads %s from offset %d", self._group, queue, start)
        reader = PushQueue(
            self._endpoint, self._config, self._group, queue, self._filters[queue.topic], start,
            self._kept(), self._consumption.put, self._moved, self._set_aside, self._figures.of_reads(queue.topic),
        )  # fmt: skip
        self._reading[queue] = (reader, self._endpoint.tasks.start(f"read {queue}", reader.run()))

    async def _set_aside(self, view: MessageView) -> None:
        """A message whose body is too large to be decompressed."""
        if self._send_backs is not None:
            await self._send_backs.set_aside(view, self._config.max_body_bytes)
            return
        log.error(
            "message %s at offset %d of %s is skipped: its body grows over max_body_bytes=%d when it is decompressed",
            view.message_id, view.queue_offset, view.queue, self._config.max_body_bytes,
        )  # fmt: skip

    def _drop(self, queue: MessageQueue) -> None:
        """Give up a queue, as soon as the listener has finished its messages."""
        log.info("%s gives up %s", self._group, queue)
        reader = self._stop(queue)
        self._endpoint.tasks.start(f"give up {queue}", self._release(reader))

    def _stop(self, queue: MessageQueue) -> PushQueue:
        reader, task = self._reading.pop(queue)
        reader.dropped = True
        task.cancel()
        self._leaving.add(queue)
        return reader

    async def _release(self, reader: PushQueue) -> None:
        await self._left(reader)
        await reader.store_offset()
        self._leaving.discard(reader.queue)
        if self._locks is not None:
            await self._locks.give_back([reader.queue])
        self.member.rebalance_soon()  # the queue may have been assigned to this member again meanwhile

    async def _left(self, reader: PushQueue) -> None:
        if self._consumption is not None:
            await self._consumption.left(reader)

    def _moved(self, reader: PushQueue, offset: QueueOffset) -> None:
        self._reading.pop(reader.queue, None)
        self._leaving.add(reader.queue)
        self._endpoint.tasks.start(f"move in {reader.queue}", self._move(reader, offset))

    async def _move(self, reader: PushQueue, offset: QueueOffset) -> None:
        await self._left(reader)
        self._leaving.discard(reader.queue)
        self._begin(reader.queue, offset)

    async def renew_locks(self) -> None:
        """Renew the locks of the queues that this member reads, and give up the queues whose lock it has lost."""
        if self._locks is None:
            return
        held = await self._locks.take([*self._reading, *self._leaving])
        for queue in [queue for queue in self._reading if queue not in held and not self._locks.held(queue)]:
            self._drop(queue)  # another member has the lock, or the broker does not answer

    async def confirm_locks(self) -> None:
        """Have the locks confirmed whose connection was lost; until then nothing of their queues is handed out."""
        if self._locks is not None:
            await self._locks.confirm()

    async def store(self) -> None:
        """Store the progress of every queue."""
        for reader, _ in list(self._reading.values()):
            await reader.store_offset()
        await self._progress.flush()

    # Requests of brokers; see AskedConsumer.

    def rebalance_soon(self) -> None:
        """Share out the queues anew."""
        self.member.rebalance_soon()

    def positions(self, topic: str) -> Mapping[MessageQueue, QueueOffset]:
        """The progress in each queue of a topic that this member reads. ``topic``: the name that brokers know."""
        return {
            queue: reader.window.committable for queue, (reader, _) in self._reading.items() if queue.topic == topic
        }

    async def go_to(self, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Continue at other offsets in those of the queues that this member reads. Running listeners finish first."""
        for queue in [queue for queue in offsets if queue in self._reading]:
            reader = self._stop(queue)
            await self._left(reader)
            await self._progress.keep(queue, offsets[queue])
            self._leaving.discard(queue)
            self._begin(queue, offsets[queue])

    async def consume_directly(self, view: MessageView) -> ConsumedDirectly:
        """Give the listener one message from any queue. This stores no progress."""
        return await consumed_directly(self._endpoint, self._listener, view, order=self._config.orderly)

    def running(self) -> ConsumerRunning:
        """This member in the terms of ``mqadmin consumerStatus``."""
        config, locks = self._config, self._locks
        table: dict[str, dict[str, Any]] = {
            key_of(queue): queue_state(reader, locked=locks is not None and locks.held(queue))
            for queue, (reader, _) in sorted(self._reading.items())
        }
        return ConsumerRunning(
            properties={
                "PROP_NAMESERVER_ADDR": ";".join(config.name_servers) + ";",
                "PROP_CONSUME_TYPE": ConsumeType.PUSH.value,
                "PROP_CONSUMEORDERLY": str(config.orderly).lower(),
                "PROP_THREADPOOL_CORE_SIZE": str(config.consume_threads),
                "PROP_CLIENT_VERSION": JAVA_VERSION,
                "PROP_CONSUMER_START_TIMESTAMP": str(self.member.started_ms),
                "consumerGroup": self._group,
                "messageModel": "BROADCASTING" if config.broadcasting else "CLUSTERING",
                "consumeFromWhere": self._from_where.value,
                "consumeMessageBatchMaxSize": str(config.consume_batch_size),
                "maxReconsumeTimes": str(config.max_reconsume_times),
            },
            subscription_set=[
                wanted.subscription(topic, self.member.started_ms) for topic, wanted in sorted(self._filters.items())
            ],
            mq_table=table,
            status_table={},
        )
