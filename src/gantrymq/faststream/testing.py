"""``TestGantryBroker``: handlers run in the test, without any server. Its methods are what FastStream's base class asks
for. For the real rules (transactions, retries, order) use ``gantrymq.testing`` instead."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast, overload
from unittest.mock import AsyncMock

from faststream._internal.testing.broker import EnterType, TestBroker, change_producer
from faststream.exceptions import SubscriberNotFound
from faststream.response import Response

from gantrymq.client.push_consumer import PushConsumer
from gantrymq.client.results import SendResult, SendStatus
from gantrymq.errors import ConfigError
from gantrymq.faststream.broker import GantryBroker
from gantrymq.faststream.connection import Connection
from gantrymq.faststream.message import Fate, Received
from gantrymq.faststream.polling import Poller
from gantrymq.faststream.producer import GantryProducer, messages_of
from gantrymq.faststream.publisher import GantryPublisher
from gantrymq.faststream.response import GantryPublishCommand
from gantrymq.faststream.subscriber import GantrySubscriber
from gantrymq.message import properties
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import LogOffset, MessageQueue, QueueOffset
from gantrymq.message.tags import parse_tag_expression
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng

_CLIENT = "test-client"
_BROKER = "test-broker"


class TestGantryBroker(TestBroker[GantryBroker, EnterType], broker=GantryBroker):
    """``async with TestGantryBroker(broker) as br: await br.publish(...)`` calls the handlers before it returns.

    Tags are compared; SQL expressions, order keys and delays are not looked at. A handler that raises raises in the
    test. ``session=`` is refused: only a broker knows whether the transaction commits.
    """

    @overload
    def __init__(
        self: TestGantryBroker[GantryBroker],
        broker: GantryBroker,
        /,
        *,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: TestGantryBroker[tuple[GantryBroker, ...]],
        *brokers: GantryBroker,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    def __init__(self, *brokers: GantryBroker, with_real: bool = False, connect_only: bool | None = None) -> None:
        super().__init__(*brokers, with_real=with_real, connect_only=connect_only)

    @contextmanager
    def _patch_producer(self, broker: GantryBroker) -> Generator[None, None, None]:
        config = broker.config.broker_config
        connection = config.connection
        with change_producer(config, InProcessProducer(broker, self.brokers)):
            config.connection = NoConnection()
            try:
                yield
            finally:
                config.connection = connection

    async def _fake_connect(self, broker: GantryBroker, *args: Any, **kwargs: Any) -> Any:
        return AsyncMock()

    def create_publisher_fake_subscriber(
        self, broker: GantryBroker, publisher: GantryPublisher
    ) -> tuple[GantrySubscriber, bool]:
        for other in _subscribers(self.brokers):
            if other.topic == publisher.topic:
                return other, True
        made = broker.subscriber(publisher.topic, f"test-{SystemRng().token(8).hex()}", batch=publisher.batch,
                                 persistent=False)  # fmt: skip
        return made, False


def _subscribers(brokers: Sequence[GantryBroker]) -> Iterator[GantrySubscriber]:
    return (cast(GantrySubscriber, subscriber) for broker in brokers for subscriber in broker.subscribers)


class NoConnection(Connection):
    """What subscribers that are started in the test find instead of a cluster: nothing comes from it."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:9876", "test", {}, None, declare_topics=False)

    def check(self) -> None:
        """There is nothing to connect to."""

    async def read(self, *arguments: Any) -> PushConsumer | Poller:
        return AsyncMock(spec=Poller, one=AsyncMock(return_value=None))


class InProcessProducer(GantryProducer):
    """Gives messages to the handlers of its brokers."""

    def __init__(self, broker: GantryBroker, brokers: Sequence[GantryBroker]) -> None:
        config = broker.config.broker_config
        super().__init__(config.connection, config.broker_parser, config.broker_decoder)
        self.set_up(config.fd_config._serializer, config.broker_codec)
        self._brokers = brokers
        self._sent = 0

    async def publish(self, cmd: GantryPublishCommand) -> SendResult | None:
        return (await self._publish_all(cmd))[0]

    async def publish_batch(self, cmd: GantryPublishCommand) -> list[SendResult]:
        return await self._publish_all(cmd)

    async def _publish_all(self, cmd: GantryPublishCommand) -> list[SendResult]:
        self._check(cmd)
        made = [self._stored(message) for message, _ in await messages_of(cmd, self.codec, self.serializer)]
        if cmd.request is None:
            for subscriber in self._readers(cmd.destination):
                fitting = [view for view in made if _selected(subscriber, view)]
                for raw in _deliveries(subscriber, fitting):
                    await subscriber.process_message(raw)
        return [_result(view) for view in made]

    async def request(self, cmd: GantryPublishCommand) -> MessageView:
        self._check(cmd)
        [(message, _)] = await messages_of(cmd, self.codec, self.serializer)
        view = self._stored(message)
        timeout = 3.0 if cmd.timeout is None else cmd.timeout
        for subscriber in self._readers(cmd.destination):
            if not _selected(subscriber, view):
                continue
            [raw] = _deliveries(subscriber, [view])
            try:
                async with asyncio.timeout(timeout):
                    answer = await subscriber.process_message(raw)
            except TimeoutError as error:
                raise TimeoutError(f"no reply to a request on {cmd.destination!r} within {timeout} s") from error
            return await self._reply(cmd, answer)
        raise SubscriberNotFound(f"no subscriber reads {cmd.destination!r} in this test")

    async def _reply(self, cmd: GantryPublishCommand, answer: Response) -> MessageView:
        reply = GantryPublishCommand.from_cmd(answer.as_publish_command())
        reply.destination = cmd.destination
        [(message, _)] = await messages_of(reply, self.codec, self.serializer)
        return self._stored(message)

    def _check(self, cmd: GantryPublishCommand) -> None:
        if cmd.session is not None:
            raise ConfigError(
                "TestGantryBroker runs no transactions, so it takes no session; test it with gantrymq.testing "
                "(docs/testing.md), which has a broker in this process"
            )

    def _readers(self, topic: str) -> Iterator[GantrySubscriber]:
        """One member of each group."""
        groups: set[str] = set()
        for subscriber in _subscribers(self._brokers):
            if subscriber.topic == topic and subscriber.group not in groups:
                groups.add(subscriber.group or repr(id(subscriber)))
                yield subscriber

    def _stored(self, message: Message) -> MessageView:
        self._sent += 1
        now_ms = SystemClock().wall_ms()
        key = message.unique_key or SystemRng().token(16).hex().upper()
        return MessageView(
            topic=message.topic, body=message.body, properties={**message.properties, properties.UNIQ_KEY: key},
            flag=message.flag, queue=MessageQueue(message.topic, _BROKER, 0), queue_offset=QueueOffset(self._sent - 1),
            message_id=key, offset_message_id=key, born_timestamp=now_ms, born_host=_CLIENT, store_timestamp=now_ms,
            store_host=_BROKER, reconsume_times=0, log_offset=LogOffset(self._sent),
        )  # fmt: skip


def _result(view: MessageView) -> SendResult:
    return SendResult(
        status=SendStatus.SEND_OK, message_id=view.message_id, offset_message_id=view.offset_message_id,
        queue=view.queue, queue_offset=view.queue_offset,
    )  # fmt: skip


def _selected(subscriber: GantrySubscriber, view: MessageView) -> bool:
    if subscriber.sql is not None or subscriber.tags.strip() in ("", "*"):
        return True
    return (view.tags or "") in parse_tag_expression(subscriber.tags)


def _deliveries(subscriber: GantrySubscriber, views: Sequence[MessageView]) -> list[Any]:
    if subscriber.batch and views:
        fate = Fate()
        return [tuple(Received.of(view, fate) for view in views)]
    return [Received.of(view, Fate()) for view in views]
