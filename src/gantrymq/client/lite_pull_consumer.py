"""The lite pull consumer: the library shares queues and reads ahead, and the program calls ``poll`` for messages.

Source: DefaultLitePullConsumer; docs/protocol.md#what-clients-send-and-when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Self, Unpack

from gantrymq.client.config import LitePullConfig, settings_of
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.lifetime import Lifetime
from gantrymq.client.connection.namespaces import with_namespace
from gantrymq.client.connection.outside import Outside, default_outside
from gantrymq.client.connection.routes import subscribe_queues
from gantrymq.client.consuming.filters import Filter, filter_of
from gantrymq.client.consuming.lite_queues import LiteQueues
from gantrymq.client.consuming.queue_arguments import check_offsets, checked_queue, checked_queues
from gantrymq.client.consuming.start_offset import max_offset, min_offset, offset_by_time
from gantrymq.client.keywords import LitePullSettings
from gantrymq.client.metrics.registry import CLIENTS
from gantrymq.client.settings_rules import POSITION, WAIT, check_timeout, read_setting
from gantrymq.client.tracing.provider import spans_of
from gantrymq.client.tracing.watch import processing
from gantrymq.errors import ConfigError
from gantrymq.message import system_topics
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset


class LitePullConsumer(Lifetime):
    """A consumer that is polled: ``subscribe`` to topics, or ``assign`` queues, then call ``poll``.

    Members of a group that subscribe share the queues of a topic, as push consumers do. With ``assign`` the program
    chooses the queues itself.

    Messages that ``poll`` returned count as consumed with the next ``poll``. This progress is stored every
    ``auto_commit_interval_ms``, by ``close``, and when a queue goes to another member. So an exception between two
    polls loses no message: the last batch is delivered again, to this member or another one. The last batch is also
    delivered again when the program leaves its loop and closes, unless it calls ``commit`` (or ``poll`` once more)
    before. With ``auto_commit=False`` only ``commit`` stores progress.

    A message can be delivered twice (after a crash, or when its queue goes to another member). Only one task or thread
    may poll; a second one at the same time gets ConfigError. The consumer belongs to the event loop and process in
    which it was started.
    """

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        outside: Outside | None = None,
        **settings: Unpack[LitePullSettings],
    ) -> None:
        """``from_where``: where the group begins in a new queue. ``settings``: fields of LitePullConfig."""
        config = self._config = settings_of(LitePullConfig, name_servers, settings)
        system_topics.check_group(group)
        self.group = with_namespace(config.namespace, group)
        endpoint = self._endpoint = Endpoint(
            type(self).__name__, config, default_outside() if outside is None else outside,
            pushes=lambda channel, command: self._queues.questions.asked(channel, command),
            greet=lambda channel: self._queues.member.greet(channel),
        )  # fmt: skip
        self._filters: dict[str, Filter] = {}
        figures = CLIENTS.made(endpoint.life, self.group)
        self._queues = LiteQueues(endpoint, config, self.group, from_where, self._filters, figures)
        self._watch = spans_of(endpoint, self.group)
        self._committed_at = 0.0
        self._returned: list[MessageView] = []
        """What the last poll returned."""

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Self:
        """Share the queues of ``topic`` with the group; ``tags``: ``"*"`` or ``"A || B"``; or ``sql``: an SQL92
        expression. Call it before ``start``."""
        if self._endpoint.running:
            raise ConfigError("subscribe before start; a running consumer keeps its subscriptions")
        system_topics.check_topic(topic)
        self._filters[with_namespace(self._config.namespace, topic)] = filter_of(tags, sql)
        return self

    async def start(self) -> None:
        """Join the group. Without a subscription, call ``assign`` next. Raises Unreachable when no name server
        answers; brokers and topics may still be missing."""
        if self._endpoint.running:
            return
        self._endpoint.start()
        try:
            await self._queues.member.find_topics()
            await self._queues.member.join()
        except BaseException:
            await self._endpoint.close()
            raise
        self._committed_at = self._endpoint.clock.monotonic()

    async def close(self) -> None:
        """Stop reading, store the progress (with ``auto_commit``, and without the last ``poll``), leave the group.

        May be called again. A ``close`` that is cancelled continues in the background."""
        if self._endpoint.started:
            self._endpoint.stop_accepting()
            self._queues.stop()
            await self._endpoint.close(self._leave)

    async def _leave(self) -> None:
        if self._config.auto_commit:
            await self._queues.store()
        await self._queues.member.leave()

    # Reading.

    async def assign(self, queues: Iterable[MessageQueue], tags: str = "*", *, sql: str | None = None) -> None:
        """Read exactly these queues from now on, each from the group's progress or ``from_where``.

        Raises ConfigError when topics are subscribed, RouteNotFound, RequestRejected or Unreachable. After an error or
        a cancellation nothing has changed.
        """
        self._endpoint.check_usable()
        if self._filters:
            raise ConfigError(
                "use subscribe or assign, not both: the queues of subscribed topics are divided among the "
                "group's members"
            )
        await self._queues.assign(set(checked_queues(queues)), filter_of(tags, sql))

    async def poll(self, timeout_ms: int | None = None) -> list[MessageView]:
        """Return some messages of one queue, in order, ``poll_batch_size`` at most; the queues take turns.

        They count as consumed with the next ``poll`` or ``commit``. ``timeout_ms``: how long to wait for a message
        (default: ``poll_timeout_ms``); after that the list is empty. A cancelled ``poll`` has taken no messages.
        Raises ConfigError while another task polls.
        """
        self._endpoint.check_usable()
        check_timeout(timeout_ms, WAIT)
        begun_ms = 0 if self._watch is None else self._endpoint.clock.wall_ms()
        with self._queues.one_poll():
            if self._config.auto_commit:
                now = self._endpoint.clock.monotonic()
                if now - self._committed_at >= self._config.auto_commit_interval_ms / 1000:
                    self._committed_at = now
                    self._queues.store_now()
            taken = await self._queues.take(self._config.poll_timeout_ms if timeout_ms is None else timeout_ms)
            self._returned = taken
            if self._watch is not None and taken:
                self._watch.received(taken, begun_ms)
            return taken

    def processing(self, messages: MessageView | Sequence[MessageView]) -> AbstractContextManager[object]:
        """``with consumer.processing(message): ...`` around the work on polled messages makes it a *process* span of
        their trace, if the program traces with OpenTelemetry; otherwise it does nothing."""
        return processing(self._watch, messages)

    def give_back_last(self, unless: list[MessageView] | None = None) -> None:
        """Undo the last ``poll``: the next poll of its queue begins with the same messages, if this member still has
        the queue and did not seek in it. ``unless``: a list that the program has received; if the last poll returned
        this very list, nothing is undone.

        This is for programs that run ``poll`` in a task of its own and may lose its result, as the blocking client
        does when a call is interrupted. It does not wait; call it on the event loop.
        """
        if unless is None or unless is not self._returned:
            self._queues.give_back_last()

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues this consumer reads now."""
        return self._queues.queues()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that may be read, freshly asked. Raises RouteNotFound or Unreachable."""
        self._endpoint.check_usable()
        name = with_namespace(self._config.namespace, topic)
        return subscribe_queues(name, await self._endpoint.routes.fetch(name))

    async def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return no messages of these queues until ``resume``; other queues continue. Raises ConfigError."""
        self._queues.pause(checked_queues(queues), True)

    async def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Return messages of these queues again. Raises ConfigError for a queue that this member does not read."""
        self._queues.pause(checked_queues(queues), False)

    # Positions.

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at ``offset`` in a queue that this member reads. Messages of it that were polled before no longer
        count as consumed.

        Raises ConfigError for another queue, or for an offset that the broker does not have.
        """
        self._endpoint.check_usable()
        checked_queue(queue)
        read_setting("offset", offset, POSITION)
        low, high = await min_offset(self._endpoint, queue), await max_offset(self._endpoint, queue)
        if not low <= offset <= high:
            raise ConfigError(f"{queue} holds the offsets {low} to {high}; {offset} is outside")
        self._endpoint.check_usable()  # the consumer may have been closed meanwhile
        self._queues.seek(queue, QueueOffset(offset))

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message that still exists."""
        self._endpoint.check_usable()
        offset = await min_offset(self._endpoint, checked_queue(queue))
        self._endpoint.check_usable()
        self._queues.seek(queue, offset)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue with the next message that arrives."""
        self._endpoint.check_usable()
        offset = await max_offset(self._endpoint, checked_queue(queue))
        self._endpoint.check_usable()
        self._queues.seek(queue, offset)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        """Offset of the first message stored at ``timestamp_ms`` (ms since 1970) or later; the end when there is none.

        Apache's 4.x brokers return the nearest message instead.
        """
        self._endpoint.check_usable()
        read_setting("timestamp_ms", timestamp_ms, POSITION)
        return await offset_by_time(self._endpoint, checked_queue(queue), timestamp_ms)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store the progress: all messages that ``poll`` returned are consumed, the last batch included. With
        ``offsets``, all messages below these offsets are consumed.

        A queue that went to another member since it was polled is left out: its messages are delivered again there.
        Raises GantryError when a broker did not confirm. After a cancellation the progress of some queues may be
        stored.
        """
        self._endpoint.check_usable()
        check_offsets(offsets)
        if self._watch is None:
            await self._queues.commit(offsets)
            return
        act = self._watch.settling("commit", "")
        try:
            await self._queues.commit(offsets)
        except BaseException as error:
            act.failed(error)
            raise
        act.done()

    async def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """The group's stored progress; None when it has none."""
        self._endpoint.check_usable()
        return await self._queues.progress.load(checked_queue(queue), stored_only=True)
