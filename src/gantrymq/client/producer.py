"""The producer, which sends messages. Source: DefaultMQProducerImpl; docs/protocol.md#sending."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Unpack

from gantrymq.client.config import ProducerConfig, settings_of
from gantrymq.client.connection.endpoint import Endpoint, decline, every
from gantrymq.client.connection.heartbeat import Heartbeats
from gantrymq.client.connection.lifetime import Lifetime
from gantrymq.client.connection.namespaces import with_namespace
from gantrymq.client.connection.outside import Outside, default_outside
from gantrymq.client.keywords import ProducerSettings
from gantrymq.client.metrics.registry import CLIENTS
from gantrymq.client.results import SendResult
from gantrymq.client.sending.delivery import Delivery
from gantrymq.client.sending.ordering import QueueSelector, by_hash
from gantrymq.client.sending.replies import Replies, reply_to
from gantrymq.client.sending.sender import Sender
from gantrymq.client.sending.stamps import Stamps, properties_text
from gantrymq.client.sending.trace import FLUSH_INTERVAL_MS, MessageTrace
from gantrymq.client.tracing.provider import spans_of
from gantrymq.client.tracing.watch import Watch, watch_of
from gantrymq.errors import GantryError, MessageIllegal
from gantrymq.message import properties, system_topics
from gantrymq.message.heartbeat import ProducerData
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.recall_handle import decode as decode_handle
from gantrymq.message.validation import check_batch, check_message, check_ordered, check_queue, check_text
from gantrymq.protocol.batch import encode_batch, in_batches, item_size
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, encode_request
from gantrymq.protocol.headers.send import RecallMessage, RecallMessageAnswer, SendMessage
from gantrymq.remoting.channel import ClientChannel

log = logging.getLogger("gantrymq.client")

LOOK_UP_INTERVAL_MS: Final = 2_000
"""How often topics given at the start are looked up until they are known."""


class Producer(Lifetime):
    """Sends messages of one producer group.

    Use it in an ``async with`` block, or call ``start`` and ``close``. One producer serves any number of concurrent
    sends, and belongs to the event loop and process it was started in: after a fork the child's calls raise
    UsedAfterFork. Cancelling a send gives up waiting; the message may have been stored.
    """

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        outside: Outside | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """``settings``: fields of ProducerConfig. Raises ConfigError or MessageIllegal for an invalid value."""
        self._set_up(group, settings_of(ProducerConfig, name_servers, settings), outside)

    def _set_up(self, group: str, config: ProducerConfig, outside: Outside | None) -> None:
        system_topics.check_group(group)
        self.group = with_namespace(config.namespace, group)
        self._config = config
        self._endpoint = Endpoint(
            type(self).__name__, config, default_outside() if outside is None else outside,
            pushes=self._pushed, greet=self._greet,
        )  # fmt: skip
        self._heartbeats = Heartbeats(self._endpoint, self._beat, self._brokers)
        self._figures = CLIENTS.made(self._endpoint.life, self.group)
        self._delivery = Delivery(self._endpoint, self._config, self._figures)
        self._stamps = Stamps(self._endpoint.next_unique_key, {})
        self._sender = sender = Sender(self._endpoint, config, self._delivery, self._stamps, self.group)
        self._send, self._frames_of, self._in_namespace = sender.send, sender.frames_of, sender.in_namespace
        self._packed, self._limit, self._deadline = sender.packed, sender.limit_ms, sender.deadline
        self._replies = Replies(self._endpoint, config.max_message_bytes)
        self._trace = MessageTrace(self._endpoint, self.group, config.trace_topic) if config.trace else None
        self._watch = watch_of(self._trace, spans_of(self._endpoint, self.group))

    async def start(self) -> None:
        """Begin the background work. It needs no network: the routes of ``topics`` are looked up once a name server
        can be reached."""
        if self._endpoint.running:
            return
        self._endpoint.start()
        # What needs no waiting comes first, so that a producer whose start is cancelled further down still works.
        self._start_tasks()
        await self._find_topics()
        await self._heartbeats.send()

    def _start_tasks(self) -> None:
        self._heartbeats.start()
        if self._config.topics:
            looking = every(self._endpoint.clock, LOOK_UP_INTERVAL_MS, self._find_topics, "topics")
            self._endpoint.tasks.start("topics", looking)
        if self._trace is not None:
            tracing = every(self._endpoint.clock, FLUSH_INTERVAL_MS, self._trace.flush, "trace")
            self._endpoint.tasks.start("trace", tracing)

    async def close(self) -> None:
        """Refuse new calls, wait for running ones (``close_timeout_ms`` at most; then they raise Closed), disconnect.

        May be called again. A ``close`` that is cancelled continues in the background.
        """
        if self._endpoint.started:
            await self._endpoint.close(self._leave)

    async def _leave(self) -> None:
        await self._endpoint.drain(self._idle, self._config.close_timeout_ms)
        if self._trace is not None:
            await self._trace.flush()
        await self._heartbeats.unregister(producer_group=self.group)

    def _idle(self) -> bool:
        """Whether nothing is in flight."""
        return self._delivery.in_flight == 0

    # Sending.

    async def send(
        self, message: Message, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Send and wait until the broker has stored the message as safely as it is configured to.

        ``queue``: the queue to send to. Without it the topic's queues are used in turn, and a failed attempt is
        repeated on the next broker (``retries``), within ``timeout_ms`` for all attempts together. A message that was
        sent again may be stored twice; both copies have the same ``message_id``.

        Raises MessageIllegal (nothing was sent), RequestRejected (the broker refused), RouteNotFound, Unreachable or
        TimedOut (it may have been stored).
        """
        self._endpoint.check_usable()
        check_message(message, self._config.max_message_bytes)
        if self._config.namespace:
            message = self._in_namespace(message)
        if self._watch is not None:
            return await self._watched(self._watch, message, queue, timeout_ms)
        return await self._send(message, queue, timeout_ms)

    async def send_ordered(
        self, message: Message, key: str, timeout_ms: int | None = None, *, selector: QueueSelector = by_hash
    ) -> SendResult:
        """Send to the queue of ``key``: an orderly consumer gets all messages of a key in the order of sending.

        Send the next message of a key only when this call has returned. ``selector`` chooses the queue; the default
        does what Java's SelectMessageQueueByHash does. Only one attempt is made, because another queue would break the
        order. Raises the errors of ``send``.
        """
        self._endpoint.check_usable()
        check_message(message, self._config.max_message_bytes)
        check_text("key of an ordered message", key)
        check_ordered(message)
        values = {**message.properties}
        values.setdefault(properties.SHARDING_KEY, key)
        message = self._in_namespace(message).with_properties(values)
        publish = await self._delivery.queues(message.topic, self._deadline(timeout_ms))
        queue = selector(publish.queues, message, key)
        return await self._reported(message, queue, timeout_ms)

    async def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> None:
        """Send without waiting for an answer. This is fast, but does not tell whether the message was stored.

        Raises MessageIllegal, RouteNotFound, or Unreachable when there is no connection.
        """
        self._endpoint.check_usable()
        check_message(message, self._config.max_message_bytes)
        # A copy, because the caller may change the object while we wait for a connection.
        message = self._in_namespace(message).with_properties({**message.properties})
        if queue is not None:
            check_queue(queue, message.topic)
        target = queue or (await self._delivery.queues(message.topic)).next()
        channel = await self._delivery.channel_to(target, self._config.send_timeout_ms)
        act = None
        if self._watch is not None:
            message, act = self._watch.sending(message)
        now_ms = self._endpoint.clock.wall_ms()
        _, text = self._stamps.stamp(message.properties, now_ms)
        body, sys_flag = self._packed(message.body)
        frames = self._frames_of(target)
        channel.send(frames.frame(channel.next_opaque(), sys_flag, now_ms, message.flag, text, body, True))
        if act is not None:
            act.done()

    async def send_batch(
        self, messages: Sequence[Message], queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Send several messages of one topic to one queue, where they are stored one after the other.

        The result names the first one's offset and all message ids, joined by commas. Errors are those of ``send``;
        MessageIllegal also for an empty batch, mixed topics, delayed messages and retry topics.
        """
        self._endpoint.check_usable()
        check_batch(messages, self._config.max_message_bytes)
        topic = with_namespace(self._config.namespace, messages[0].topic)
        if queue is not None:
            check_queue(queue, topic)
        deadline = self._deadline(timeout_ms)
        act = None
        self._delivery.in_flight += 1
        try:
            await self._delivery.queues(topic, deadline)
            messages = [message.with_properties(self._stamps.marked(message.properties)) for message in messages]
            ids = ",".join(message.properties[properties.UNIQ_KEY] for message in messages)
            if self._watch is not None:
                messages, act = self._watch.sending_batch(messages)
            # The batch has no UNIQ_KEY of its own, as it has in 5.x clients: 4.x brokers would write that key over
            # those of the messages.
            own = {properties.WAIT: messages[0].properties[properties.WAIT]}
            text, body = properties_text(own), encode_batch(messages)
            if len(body) > self._config.max_message_bytes:
                raise MessageIllegal(
                    f"the batch takes {len(body)} bytes with what describes its messages; the limit is "
                    f"{self._config.max_message_bytes}, so split it, or use send_batches"
                )

            def frame(target: MessageQueue, opaque: int) -> bytes:
                header = self._header(target, text, messages[0].flag, sys_flag=0, batch=True)
                return encode_request(RequestCode.SEND_BATCH_MESSAGE, opaque, header, body)

            result = await self._delivery.deliver(topic, ids, frame, deadline, queue)
        except BaseException as error:
            if act is not None:
                act.failed(error)
            raise
        finally:
            self._delivery.in_flight -= 1
        if act is not None:
            act.done(result)
        self._figures.of_sends(topic).batched += len(messages) - 1
        return result

    async def send_batches(
        self, messages: Iterable[Message], queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> list[SendResult]:
        """Send any number of messages of one topic, in as many batches as ``batch_bytes`` asks for.

        Sends one batch after the other, each to the next queue (or all to ``queue``). ``timeout_ms`` applies to each
        batch. Messages that were sent before an error stay sent. Raises the errors of ``send_batch``.
        """
        results: list[SendResult] = []
        for part in in_batches(messages, self._config.batch_bytes):
            if len(part) == 1 and item_size(part[0]) > self._config.max_message_bytes:
                # In a batch of its own it would be too large, by the bytes that describe the batch.
                results.append(await self.send(part[0], queue, timeout_ms))
            else:
                results.append(await self.send_batch(part, queue, timeout_ms))
        return results

    async def recall(self, topic: str, recall_handle: str, timeout_ms: int | None = None) -> str:
        """Withdraw a message before its time of delivery. Returns its ``message_id``.

        ``recall_handle``: the one in the SendResult of the message. Brokers since 5.3.2 return it for messages with
        ``delay_ms`` or ``deliver_at_ms``. Raises MessageIllegal for an invalid handle, RequestRejected when the broker
        refuses (``recallMessageEnable`` is off, or it is too late), RouteNotFound or Unreachable.
        """
        self._endpoint.check_usable()
        check_text("recall handle", recall_handle)
        place = decode_handle(recall_handle)
        topic = with_namespace(self._config.namespace, topic)
        routes = self._endpoint.routes
        await routes.get(topic)
        header = RecallMessage(
            topic=topic, recall_handle=recall_handle, producer_group=self.group, bname=place.broker_name
        )
        answer = await self._endpoint.ask(
            lambda: routes.master(place.broker_name),
            RequestCode.RECALL_MESSAGE,
            header,
            what=f"recall of message {place.unique_key}",
            topic=topic,
            timeout_ms=self._limit(timeout_ms),
        )
        return answer.header(RecallMessageAnswer).msg_id

    async def request(
        self, message: Message, timeout_ms: int | None = None, queue: MessageQueue | None = None
    ) -> MessageView:
        """Send a request and wait for the reply that a consumer sends (with ``reply``).

        ``timeout_ms`` covers request and reply. Raises TimedOut when no reply arrived, and the errors of ``send``.
        """
        self._endpoint.check_usable()
        check_message(message, self._config.max_message_bytes)
        message = self._in_namespace(message).with_properties({**message.properties})
        limit_ms = self._limit(timeout_ms)
        deadline = self._deadline(limit_ms)
        if queue is not None:
            check_queue(queue, message.topic)
        target = queue or (await self._delivery.queues(message.topic, deadline)).next()
        # The broker that gets the request pushes the reply to us. So it must know this client, and the client must
        # know its own id.
        await self._delivery.channel_to(target, limit_ms)
        correlation, answer = self._replies.expect(message, limit_ms)
        try:
            await self._reported(message, target, limit_ms)
            return await self._replies.wait(answer, deadline - self._endpoint.clock.monotonic(), limit_ms)
        finally:
            self._replies.forget(correlation)

    async def reply(
        self,
        request: MessageView,
        body: bytes | str,
        timeout_ms: int | None = None,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> SendResult:
        """Answer a request that a consumer got. ``properties``: user properties of the reply.

        Raises MessageIllegal when the message is not a request, RequestRejected when the requester has disconnected,
        and the errors of ``send``.
        """
        self._endpoint.check_usable()
        message, queue = reply_to(request, body, properties)
        check_message(message, self._config.max_message_bytes)
        if self._watch is None:
            return await self._reply(message, queue, timeout_ms)
        message, act = self._watch.sending(message)
        try:
            result = await self._reply(message, queue, timeout_ms)
        except BaseException as error:
            act.failed(error)
            raise
        act.done(result)
        return result

    async def _reply(self, message: Message, queue: MessageQueue, timeout_ms: int | None) -> SendResult:
        deadline = self._deadline(timeout_ms)
        await self._delivery.queues(message.topic, deadline)
        values = self._stamps.marked(message.properties)
        text = properties_text(values)
        packed, sys_flag = self._packed(message.body)

        def frame(target: MessageQueue, opaque: int) -> bytes:
            header = self._header(target, text, message.flag, sys_flag=sys_flag, batch=False)
            return encode_request(RequestCode.SEND_REPLY_MESSAGE_V2, opaque, header, packed)

        return await self._delivery.deliver(message.topic, values[properties.UNIQ_KEY], frame, deadline, queue)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues a message of ``topic`` may be sent to. Raises RouteNotFound or Unreachable."""
        self._endpoint.check_usable()
        return list((await self._delivery.queues(with_namespace(self._config.namespace, topic))).queues)

    # The parts.

    async def _reported(self, message: Message, queue: MessageQueue | None, timeout_ms: int | None) -> SendResult:
        if self._watch is not None:
            return await self._watched(self._watch, message, queue, timeout_ms)
        return await self._send(message, queue, timeout_ms)

    async def _watched(
        self, watch: Watch, message: Message, queue: MessageQueue | None, timeout_ms: int | None
    ) -> SendResult:
        message, act = watch.sending(message)
        try:
            result = await self._send(message, queue, timeout_ms)
        except BaseException as error:
            act.failed(error)
            raise
        act.done(result)
        return result

    def _header(self, queue: MessageQueue, text: str, flag: int, *, sys_flag: int, batch: bool) -> SendMessage:
        return SendMessage(
            producer_group=self.group,
            topic=queue.topic,
            default_topic=system_topics.AUTO_CREATE,
            default_topic_queue_nums=self._config.default_topic_queue_nums,
            queue_id=queue.queue_id,
            sys_flag=sys_flag,
            born_timestamp=self._endpoint.clock.wall_ms(),
            flag=flag,
            properties=text,
            reconsume_times=0,
            unit_mode=False,
            batch=batch,
            bname=queue.broker_name,
        )

    # Membership.

    async def _find_topics(self) -> None:
        """Look up those of ``topics`` whose route is not known yet."""
        for name in self._config.topics:
            topic = with_namespace(self._config.namespace, name)
            if self._endpoint.routes.known(topic) is None:
                try:
                    await self._delivery.route(topic)
                except GantryError as error:
                    log.warning("topic %s is not known yet: %s", topic, error)

    def _brokers(self) -> Iterable[str]:
        """The addresses of the brokers that get heartbeats."""
        return self._endpoint.routes.masters()

    def _beat(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self._endpoint.client_id, producer_data_set=[ProducerData(group_name=self.group)]
        )

    def _greet(self, channel: ClientChannel) -> None:
        self._heartbeats.greet(channel)

    def _pushed(self, channel: ClientChannel, command: Command) -> None:
        if command.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
            self._replies.pushed(channel, command)
        else:
            decline(channel, command)
