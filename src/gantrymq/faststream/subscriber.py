"""``@broker.subscriber(...)``: a push consumer whose listener is a handler of FastStream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from faststream._internal.endpoint.subscriber import SubscriberUsecase
from faststream._internal.endpoint.utils import process_msg
from faststream.exceptions import SetupError
from faststream.middlewares import AckPolicy

from gantrymq.client.push_consumer import PushConsumer
from gantrymq.client.results import ReconsumeLater
from gantrymq.faststream.connection import Connection
from gantrymq.faststream.message import Fate, GantryMessage, Received
from gantrymq.faststream.parser import GantryBatchParser, GantryParser, waits_for_reply
from gantrymq.faststream.polling import Poller, Subscription
from gantrymq.faststream.publisher import ReplyPublisher
from gantrymq.message.message import MessageView

if TYPE_CHECKING:
    from faststream._internal.endpoint.publisher import PublisherProto
    from faststream._internal.endpoint.subscriber import SubscriberSpecification
    from faststream._internal.endpoint.subscriber.call_item import CallsCollection
    from faststream.message import StreamMessage

    from gantrymq.faststream.config import GantrySubscriberConfig

_LISTENING: ContextVar[bool] = ContextVar("gantrymq.faststream.listening", default=False)
"""Whether this code runs inside a handler, which then cannot wait for its own end."""

ORDERLY_DELIVERIES = 16
"""Deliveries of an orderly subscriber. RocketMQ's default is for ever: one bad message would stop its queue."""


class GantrySubscriber(SubscriberUsecase[Any]):
    """One member of a consumer group, for one topic."""

    def __init__(
        self,
        config: GantrySubscriberConfig,
        specification: SubscriberSpecification[Any, Any],
        calls: CallsCollection[Any],
    ) -> None:
        if config.batch:
            batches = GantryBatchParser()
            config.parser, config.decoder = batches.parse_batch, batches.decode_batch
        else:
            single = GantryParser()
            config.parser, config.decoder = single.parse_message, single.decode_message
        super().__init__(config, specification, calls)
        self._config = config
        self.group, self.tags, self.sql, self.batch = config.group, config.tags, config.sql, config.batch
        self._joining = False
        """Whether ``start`` is at work, so that a second one at the same time makes no second consumer."""
        self._consumer: PushConsumer | Poller | None = None
        self._free = asyncio.Semaphore()
        self._background: set[asyncio.Task[Any]] = set()
        """Handlers whose messages were acknowledged first, and ends of this subscriber."""

    @property
    def topic(self) -> str:
        return f"{self._outer_config.prefix}{self._config.topic}"

    @property
    def subscription(self) -> Subscription:
        return self.topic, self.tags, self.sql

    @property
    def _connection(self) -> Connection:
        connection = getattr(self._outer_config, "connection", None)
        if not isinstance(connection, Connection):
            raise SetupError(f"the router with the subscriber of {self.topic!r} is not included in a broker")
        return connection

    # Life.

    async def start(self) -> None:
        """Join the group and begin to read. May be called again. Raises SetupError, Unreachable, RequestRejected."""
        if self._consumer is not None or self._joining:
            return  # ``running`` does not tell: FastStream's test client sets it before the start
        if not self.group:
            raise SetupError(
                f"the subscriber of {self.topic!r} has no group; "
                f'write @broker.subscriber({self.topic!r}, group="shipping") with the name of your service'
            )
        connection = self._connection
        connection.check()
        await super().start()
        connection.joined(self.group, self.subscription)
        self._joining = True
        self._free = asyncio.Semaphore(self._config.settings["consume_threads"])  # belongs to this event loop
        self._post_start()  # a message may come before the consumer's start returns
        try:
            self._consumer = await connection.read(
                self.group, self.subscription, self._deliver if self.calls else None, self._config.from_where,
                self._consumer_settings() if self.calls else self._client_settings(),
            )  # fmt: skip
        except BaseException:
            self.running = False
            connection.left(self.group)
            raise
        finally:
            self._joining = False

    def _consumer_settings(self) -> dict[str, Any]:
        settings = self._client_settings() | self._config.settings
        if settings.get("orderly"):
            settings.setdefault("max_reconsume_times", ORDERLY_DELIVERIES)
        return settings

    def _client_settings(self) -> dict[str, Any]:
        timeout = self._outer_config.graceful_timeout
        own = {} if timeout is None else {"close_timeout_ms": int(timeout * 1000)}
        return own | dict(self._connection.settings)

    async def stop(self) -> None:
        """Read no more, wait for running handlers (the broker's ``graceful_timeout``), and leave the group.

        Inside a handler of this subscriber it returns at once, and the end follows behind the handler.
        """
        if _LISTENING.get():
            ending = asyncio.get_running_loop().create_task(self._end())
            self._keep(ending)
        else:
            await self._end()

    async def _end(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            self._connection.left(self.group)
            await consumer.close()
        await super().stop()

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # Delivery.

    async def _deliver(self, views: list[MessageView]) -> ReconsumeLater | None:
        """The listener of the push consumer."""
        fate = Fate()
        received = tuple(Received.of(view, fate) for view in views)
        raw = received if self.batch else received[0]
        if self.ack_policy is AckPolicy.ACK_FIRST:
            await self._free.acquire()
            task = asyncio.get_running_loop().create_task(self._handle(raw))
            task.add_done_callback(lambda _: self._free.release())
            self._keep(task)
            return None
        await self._handle(raw)
        if not fate.decided and self.running:
            self._log(logging.WARNING, "no ack, nack or reject: the message is delivered again")
        return fate.answer

    async def _handle(self, raw: Received | tuple[Received, ...]) -> None:
        inside = _LISTENING.set(True)
        try:
            await self.consume(raw)
        finally:
            _LISTENING.reset(inside)

    def _make_response_publisher(self, message: StreamMessage[Any]) -> Iterable[PublisherProto]:
        raw, producer = message.raw_message, self._outer_config.producer
        if isinstance(raw, MessageView) and waits_for_reply(raw):
            return (ReplyPublisher(producer, "", raw),)
        return (ReplyPublisher(producer, message.reply_to, None),)

    # Without a handler.

    async def get_one(self, *, timeout: float = 5.0) -> GantryMessage | None:
        """The next message, or None when none comes in ``timeout`` seconds. It counts as consumed.

        Raises AssertionError, as FastStream's brokers, when the subscriber has a handler, and SetupError when it is not
        started.
        """
        return await self._parsed(await self._polling().one(timeout))

    async def __aiter__(self) -> AsyncIterator[GantryMessage]:
        poller = self._polling()
        while self.running:
            message = await self._parsed(await poller.one(1.0))
            if message is not None:
                yield message

    def _polling(self) -> Poller:
        if self.calls:
            raise AssertionError("a subscriber with a handler gives its messages to that; get_one is for one without")
        if not isinstance(self._consumer, Poller):
            raise SetupError("start the subscriber before you ask it for messages")
        return self._consumer

    async def _parsed(self, view: MessageView | None) -> GantryMessage | None:
        context = self._outer_config.context
        parser, decoder = self._get_parser_and_decoder()
        raw: Any = view
        if view is not None:
            raw = Received.of(view, Fate())
            raw = (raw,) if self.batch else raw
        message: Any = await process_msg(
            msg=raw, middlewares=(m(raw, context=context) for m in self._broker_middlewares), parser=parser,
            decoder=decoder,
        )  # fmt: skip
        return message  # type: ignore[no-any-return]

    def get_log_context(self, message: StreamMessage[Any] | None) -> dict[str, str]:
        return {"topic": self.topic, "group": self.group, "message_id": getattr(message, "message_id", "")}
