"""The push consumer, which calls a listener with the messages of its group's share of the queues.

Source: DefaultMQPushConsumerImpl; docs/protocol.md#what-clients-send-and-when, docs/protocol.md#groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, Unpack

from gantrymq.client.config import PushConfig, settings_of
from gantrymq.client.connection.endpoint import Endpoint, every
from gantrymq.client.connection.lifetime import Lifetime
from gantrymq.client.connection.namespaces import with_namespace
from gantrymq.client.connection.outside import Outside, default_outside
from gantrymq.client.consuming.assigned_queues import AssignedQueues
from gantrymq.client.consuming.broker_questions import BrokerQuestions
from gantrymq.client.consuming.filters import EVERYTHING, Filter, filter_of
from gantrymq.client.consuming.queue_locks import CONFIRM_MS
from gantrymq.client.keywords import PushSettings
from gantrymq.client.message_listener import MessageListener
from gantrymq.client.metrics.registry import CLIENTS
from gantrymq.client.sending.trace import FLUSH_INTERVAL_MS, MessageTrace
from gantrymq.client.tracing.provider import spans_of
from gantrymq.client.tracing.watch import watch_of
from gantrymq.errors import ConfigError
from gantrymq.message import system_topics
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.queues import MessageQueue


class PushConsumer(Lifetime):
    """Delivers the messages of its subscriptions to a listener, at least once.

    All members of a group share the queues of a topic; their subscriptions must be the same. The listener gets lists
    of up to ``consume_batch_size`` messages, in ``consume_threads`` threads (or, when it is ``async def``, as that
    many tasks). When it returns None or CONSUME_SUCCESS, the messages are consumed. When it raises or returns
    RECONSUME_LATER, they are delivered again after 10 s, 30 s, 1 min ..., and after ``max_reconsume_times`` they go to
    the dead-letter topic ``%DLQ%<group>``. A message can be delivered twice (after a crash, or when its queue goes to
    another member), so make the listener idempotent.

    ``orderly``: the messages of a queue are delivered one batch after the other, across all members. A batch that
    failed is delivered again after ``suspend_ms``, before any other message of its queue. ``broadcasting``: every
    member gets all messages.

    A message that is sent after ``start`` has returned is not missed, even in a topic that is created later. The
    consumer belongs to the event loop and process in which it was started.
    """

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        listener: MessageListener,
        from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        outside: Outside | None = None,
        **settings: Unpack[PushSettings],
    ) -> None:
        """``from_where``: where the group begins in queues it has never read. ``settings``: fields of PushConfig."""
        config = self._config = settings_of(PushConfig, name_servers, settings)
        system_topics.check_group(group)
        if not callable(listener):
            raise ConfigError("the listener must be callable: a function that gets a list of messages")
        self.group = with_namespace(config.namespace, group)
        outside = default_outside() if outside is None else outside
        endpoint = self._endpoint = Endpoint(
            type(self).__name__, config, outside,
            pushes=lambda channel, command: self._questions.asked(channel, command),
            greet=lambda channel: self._queues.member.greet(channel),
        )  # fmt: skip
        self._trace = MessageTrace(endpoint, self.group, config.trace_topic) if config.trace else None
        watch = watch_of(self._trace, spans_of(endpoint, self.group, broadcasting=config.broadcasting))
        if watch is not None:
            listener = watch.listener(listener)
        self._filters: dict[str, Filter] = {}
        self._queues = AssignedQueues(
            endpoint, config, self.group, listener, from_where, self._filters, outside.disk, watch,
            CLIENTS.made(endpoint.life, self.group),
        )  # fmt: skip
        self._questions = BrokerQuestions(endpoint, self._queues, config.max_body_bytes)

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Self:
        """Read ``topic``; ``tags``: ``"*"`` for all messages, or ``"A || B"``. Call it before ``start``.

        ``sql``: an SQL92 expression over the messages' properties instead, e.g. ``"price > 10 AND region = 'eu'"``.
        Apache's brokers need ``enablePropertyFilter=true`` for it; without that ``start`` raises RequestRejected.
        """
        if self._endpoint.running:
            raise ConfigError("subscribe before start; a running consumer keeps its subscriptions")
        system_topics.check_topic(topic)
        self._filters[with_namespace(self._config.namespace, topic)] = filter_of(tags, sql)
        return self

    async def start(self) -> None:
        """Join the group and begin to read. Raises ConfigError without a subscription, and Unreachable when no name
        server answers. Brokers and topics may still be missing: they are read as soon as they exist."""
        if self._endpoint.running:
            return
        if not self._filters:
            raise ConfigError("nothing is subscribed; call subscribe(topic) before start")
        self._endpoint.start()
        queues = self._queues
        try:
            await queues.member.find_topics()
            if not self._config.broadcasting:
                self._filters.setdefault(system_topics.retry_topic(self.group), EVERYTHING)
            queues.open()
            await queues.member.join()
            self._endpoint.check_usable()  # the consumer may have been closed meanwhile
        except BaseException:
            await self.close()
            raise
        tasks, clock, config = self._endpoint.tasks, self._endpoint.clock, self._config
        tasks.start("progress", every(clock, config.persist_interval_ms, queues.store, "progress"))
        if self._trace is not None:
            tasks.start("trace", every(clock, FLUSH_INTERVAL_MS, self._trace.flush, "trace"))
        if config.orderly:
            tasks.start("locks", every(clock, config.lock_interval_ms, queues.renew_locks, "locks"))
            tasks.start("lost locks", every(clock, CONFIRM_MS, queues.confirm_locks, "lost locks"))

    async def close(self) -> None:
        """Stop reading, wait for running listeners (``close_timeout_ms`` at most), store the progress, leave the group.

        Messages that the listener has not begun with are delivered again, to the member that reads their queue next;
        so are those of a listener that takes longer. ``close`` may be called again, from several places, and from
        inside an ``async def`` listener, whose own messages are then delivered again. A ``close`` that is cancelled
        continues in the background.
        """
        if self._endpoint.started:
            self._endpoint.stop_accepting()
            self._queues.excuse()
            self._queues.stop()
            await self._endpoint.close(self._leave)

    async def drop(self) -> None:
        """See Lifetime. No further listener is called, and running listeners are not waited for."""
        self._endpoint.stop_accepting()
        self._queues.stop()
        await super().drop()

    async def _leave(self) -> None:
        await self._endpoint.drain(lambda: self._queues.idle, self._config.close_timeout_ms)
        await self._queues.store()
        await self._queues.unlock()
        if self._trace is not None:
            await self._trace.flush()
        await self._queues.member.leave()

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues this member reads now, retry topic included."""
        return self._queues.queues()
