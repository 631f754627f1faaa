"""The simple consumer: it receives messages, and acknowledges each of them.

Source: SimpleConsumer of RocketMQ 5's clients; docs/client.md#receive-and-acknowledge, docs/protocol.md#pop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Self, Unpack

from gantrymq.client.config import SimpleConfig, settings_of
from gantrymq.client.connection.endpoint import Endpoint, decline
from gantrymq.client.connection.heartbeat import Heartbeats
from gantrymq.client.connection.lifetime import Lifetime
from gantrymq.client.connection.namespaces import with_namespace, without_namespace
from gantrymq.client.connection.outside import Outside, default_outside
from gantrymq.client.consuming.filters import Filter, filter_of
from gantrymq.client.consuming.pop_receiver import PopReceiver
from gantrymq.client.consuming.popping import checked_message
from gantrymq.client.keywords import SimpleSettings
from gantrymq.client.metrics.registry import CLIENTS
from gantrymq.client.settings_rules import Whole, read_setting
from gantrymq.client.tracing.provider import spans_of
from gantrymq.client.tracing.watch import processing
from gantrymq.errors import ConfigError, RouteNotFound
from gantrymq.message import system_topics
from gantrymq.message.arguments import shown
from gantrymq.message.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType
from gantrymq.message.message import MessageView
from gantrymq.protocol.bodies.heartbeat import HeartbeatData

log = logging.getLogger("gantrymq.client")

LONGEST_INVISIBLE_MS: Final = 12 * 3600 * 1000
"""12 hours, as RocketMQ 5's clients may ask for."""
_FROM_WHERE: Final = frozenset({ConsumeFromWhere.LAST_OFFSET, ConsumeFromWhere.FIRST_OFFSET})
COUNT: Final = Whole(1, 32, "messages", "brokers give no more at once")
INVISIBLE: Final = Whole(1, LONGEST_INVISIBLE_MS, "milliseconds")
INVISIBLE_AGAIN: Final = Whole(0, LONGEST_INVISIBLE_MS, "milliseconds")


class SimpleConsumer(Lifetime):
    """``receive`` some messages, work on them, and ``ack`` each one. The broker shares the messages out, one by one.

    A received message is invisible to the other members of the group for ``invisible_duration_ms``. When that is over
    and it was not acknowledged, it comes again, to any member; after the ``retryMaxTimes`` of its group it goes to the
    dead letters (on Apache's brokers it comes again for ever). ``change_invisible_duration`` gives more time, or gives
    the message back. So a message can be delivered twice.

    Any number of tasks may receive at the same time. There are no queues to share: a slow message does not hold up the
    ones behind it, and a group may have more members than its topics have queues. Brokers must be 5.x, or GantryMQ's.
    The consumer belongs to the event loop and process in which it was started.
    """

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        outside: Outside | None = None,
        **settings: Unpack[SimpleSettings],
    ) -> None:
        """``from_where``: LAST_OFFSET or FIRST_OFFSET; where the group begins in a queue that it has never read.
        ``settings``: fields of SimpleConfig."""
        config = self._config = settings_of(SimpleConfig, name_servers, settings)
        system_topics.check_group(group)
        if not isinstance(from_where, ConsumeFromWhere) or from_where not in _FROM_WHERE:
            raise ConfigError(
                f"from_where must be ConsumeFromWhere.LAST_OFFSET or ConsumeFromWhere.FIRST_OFFSET, not "
                f"{shown(from_where)}"
            )
        self.group = with_namespace(config.namespace, group)
        self._from_where = from_where
        endpoint = self._endpoint = Endpoint(
            type(self).__name__, config, default_outside() if outside is None else outside, pushes=decline,
            greet=lambda channel: self._heartbeats.greet(channel),
        )  # fmt: skip
        self._filters: dict[str, Filter] = {}
        self._since: dict[str, int] = {}
        """When each subscription was made, ms since 1970: its version."""
        self._heartbeats = Heartbeats(endpoint, self._beat, endpoint.routes.addresses)
        self._figures = CLIENTS.made(endpoint.life, self.group)
        self._receiver = PopReceiver(
            endpoint, config, self.group, self._filters,
            from_start=from_where is ConsumeFromWhere.FIRST_OFFSET, figures=self._figures,
        )  # fmt: skip
        self._watch = spans_of(endpoint, self.group)

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Self:
        """Receive messages of ``topic``; ``tags``: ``"*"`` for all messages, or ``"A || B"``; or ``sql``: an SQL92
        expression. It may be called at any time, and replaces an earlier subscription to the topic. All members of a
        group must have the same subscriptions. Raises ConfigError or MessageIllegal."""
        system_topics.check_topic(topic)
        name, wanted = with_namespace(self._config.namespace, topic), filter_of(tags, sql)
        self._changing()
        self._filters[name], self._since[name] = wanted, self._endpoint.clock.wall_ms()
        self._changed()
        return self

    def unsubscribe(self, topic: str) -> Self:
        """Receive no messages of ``topic`` any more. Those in hand can still be acknowledged."""
        system_topics.check_topic(topic)
        self._changing()
        self._filters.pop(with_namespace(self._config.namespace, topic), None)
        self._changed()
        return self

    def _changing(self) -> None:
        if self._endpoint.started:
            self._endpoint.check_usable()

    def _changed(self) -> None:
        if self._endpoint.running:
            self._endpoint.tasks.start("heartbeat", self._heartbeats.send())

    @property
    def subscriptions(self) -> dict[str, str]:
        """The expression of each topic that is subscribed."""
        namespace = self._config.namespace
        return {without_namespace(namespace, topic): wanted.text for topic, wanted in self._filters.items()}

    async def start(self) -> None:
        """Join the group. Raises Unreachable when no name server answers. Brokers and topics may still be missing."""
        endpoint = self._endpoint
        if endpoint.running:
            return
        endpoint.start()
        try:
            for topic in list(self._filters):
                try:
                    await endpoint.routes.fetch(topic)
                except RouteNotFound:
                    log.info("topic %s does not exist yet", topic)
            await self._heartbeats.send()
            endpoint.check_usable()  # the consumer may have been closed meanwhile
        except BaseException:
            await endpoint.close()
            raise
        self._heartbeats.start()

    async def close(self) -> None:
        """Leave the group; ``receive`` raises Closed. Messages in hand that were not acknowledged come again when
        their time is over. May be called again. A ``close`` that is cancelled continues in the background."""
        if self._endpoint.started:
            self._endpoint.stop_accepting()
            self._receiver.stop()
            await self._endpoint.close(self._leave)

    async def _leave(self) -> None:
        await self._endpoint.drain(lambda: self._receiver.idle, self._config.close_timeout_ms)
        await self._heartbeats.unregister(consumer_group=self.group)

    async def receive(self, max_message_num: int, invisible_duration_ms: int) -> list[MessageView]:
        """Up to ``max_message_num`` (32 at most) messages of one topic, which are invisible to others for
        ``invisible_duration_ms``. The list is empty when there were none for ``await_duration_ms``. Topics and brokers
        take turns.

        A cancelled ``receive`` has taken no messages: what a broker has given by then is visible again at once. Raises
        ConfigError when no topic is subscribed; RequestRejected; and RouteNotFound, Unreachable or TimedOut when no
        topic and broker could be asked for ``await_duration_ms``.
        """
        self._endpoint.check_usable()
        read_setting("max_message_num", max_message_num, COUNT)
        read_setting("invisible_duration_ms", invisible_duration_ms, INVISIBLE)
        if not self._filters:
            raise ConfigError("no topic is subscribed; call subscribe(topic) before receive")
        begun_ms = 0 if self._watch is None else self._endpoint.clock.wall_ms()
        found = await self._receiver.receive(int(max_message_num), int(invisible_duration_ms))
        if self._config.namespace:
            for view in found:
                view.topic = without_namespace(self._config.namespace, view.topic)
        if self._watch is not None and found:
            self._watch.received(found, begun_ms)
        return found

    def give_back(self, messages: Sequence[MessageView]) -> None:
        """Messages that ``receive`` returned and the program never got: they are visible again at once. For programs
        that run ``receive`` in a task of its own, as the blocking client does. It does not wait; call it on the event
        loop."""
        if self._endpoint.running:
            self._receiver.give_back(messages)

    async def ack(self, message: MessageView) -> None:
        """The message is consumed and does not come again, if its invisible duration is not over. (Then it may have
        been given to another member; a late ``ack`` changes nothing.)

        Repeated while its broker is away, for ``call_timeout_ms``. Raises ConfigError for anything that ``receive`` has
        not returned, RequestRejected, Unreachable or TimedOut; after the last two it may have been executed, and may be
        repeated.
        """
        self._endpoint.check_usable()
        view = checked_message(message)
        if self._watch is None:
            await self._receiver.ack(view)
        else:
            act = self._watch.settling("ack", view.topic, (view,))
            try:
                await self._receiver.ack(view)
            except BaseException as error:
                act.failed(error)
                raise
            act.done()
        self._figures.of_reads(with_namespace(self._config.namespace, view.topic)).consumed += 1

    async def change_invisible_duration(self, message: MessageView, invisible_duration_ms: int) -> None:
        """The message is invisible for ``invisible_duration_ms`` from now on: more time for the work on it, or, with a
        short time, a way to give it back. 0: it comes again at once. ``message`` has a new receipt handle then.

        Raises RequestRejected when the delivery has ended: it was acknowledged, or its time is over (Apache's brokers
        do not say so). Other errors as of ``ack``. It is not repeated.
        """
        self._endpoint.check_usable()
        view = checked_message(message)
        read_setting("invisible_duration_ms", invisible_duration_ms, INVISIBLE_AGAIN)
        await self._receiver.change(view, int(invisible_duration_ms))

    def processing(self, messages: MessageView | Sequence[MessageView]) -> AbstractContextManager[object]:
        """``with consumer.processing(message): ...`` around the work on received messages makes it a *process* span of
        their trace, if the program traces with OpenTelemetry; otherwise it does nothing."""
        return processing(self._watch, messages)

    def _beat(self) -> HeartbeatData:
        consumer = ConsumerData(
            group_name=self.group, consume_type=ConsumeType.POP, consume_from_where=self._from_where, unit_mode=False,
            subscription_data_set=[
                wanted.subscription(topic, self._since[topic]) for topic, wanted in self._filters.items()
            ],
        )  # fmt: skip
        return HeartbeatData(client_id=self._endpoint.client_id, consumer_data_set=[consumer])
