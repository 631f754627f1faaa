"""``GantryBroker``: what an application of FastStream is built on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from fast_depends import Provider, dependency_provider
from faststream._internal.broker import BrokerUsecase
from faststream._internal.constants import EMPTY
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream.message import gen_cor_id
from faststream.middlewares import AckPolicy
from faststream.response.publish_type import PublishType
from faststream.specification.schema import BrokerSpec

from gantrymq.client.config import ProducerConfig, parse_name_servers, settings_of
from gantrymq.client.keywords import ClientSettings
from gantrymq.client.producer import Producer
from gantrymq.client.results import SendResult
from gantrymq.faststream.config import GantryBrokerConfig
from gantrymq.faststream.connection import Connection
from gantrymq.faststream.logging_fields import make_logger
from gantrymq.faststream.message import GantryMessage
from gantrymq.faststream.producer import GantryProducer
from gantrymq.faststream.registrator import GantryRegistrator
from gantrymq.faststream.response import GantryPublishCommand, SendOptions, sending_of
from gantrymq.faststream.security import settings_of_security

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.basic_types import LoggerProto
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import BrokerMiddleware, CustomCallable, IdGenerator
    from faststream.security import BaseSecurity
    from faststream.specification.schema.extra import Tag, TagDict

    from gantrymq.sql.async_transactions import AsyncTransactions


class GantryBroker(GantryRegistrator, BrokerUsecase[Any, Producer, GantryBrokerConfig]):
    """A RocketMQ cluster, GantryMQ's or Apache's, as a broker of FastStream."""

    def __init__(
        self,
        name_servers: str | Iterable[str] = "127.0.0.1:9876",
        *,
        producer_group: str = "faststream",
        transactions: AsyncTransactions[Any] | None = None,
        declare_topics: bool = True,
        graceful_timeout: float | None = 15.0,
        ack_policy: AckPolicy = EMPTY,
        decoder: CustomCallable | None = None,
        parser: CustomCallable | None = None,
        codec: CodecProto | None = None,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[GantryRegistrator] = (),
        id_generator: IdGenerator = gen_cor_id,
        security: BaseSecurity | None = None,
        specification_url: str | Iterable[str] | None = None,
        protocol: str = "rocketmq",
        protocol_version: str | None = "5",
        description: str | None = None,
        tags: Iterable[Tag | TagDict] = (),
        logger: LoggerProto | None = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        serializer: SerializerProto | None = EMPTY,
        provider: Provider | None = None,
        context: ContextRepo | None = None,
        **settings: Unpack[ClientSettings],
    ) -> None:
        """``name_servers``: addresses. ``producer_group``: the group that ``publish`` sends as.

        ``transactions``: of ``gantrymq.sql``, for ``publish(..., session=session)``; the broker starts and closes them.
        ``declare_topics``: create topics of subscribers that no name server knows. ``graceful_timeout``: seconds for
        which ``stop`` waits for running handlers; None: the client's ``close_timeout_ms``. ``security``: SASLPlaintext
        of FastStream has access key and secret key. ``settings``: fields of ``ClientConfig``, for all clients of this
        broker. The others are FastStream's. Raises ConfigError for an invalid value.
        """
        client_settings = {**settings_of_security(security), **settings}
        settings_of(ProducerConfig, name_servers, client_settings)
        addresses = parse_name_servers(name_servers)
        connection = Connection(addresses, producer_group, client_settings, transactions, declare_topics)
        urls = addresses if specification_url is None else specification_url
        super().__init__(
            routers=routers,
            config=GantryBrokerConfig(
                connection=connection,
                producer=GantryProducer(connection, parser, decoder),
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                logger=make_logger(logger=logger, log_level=log_level),
                fd_config=FastDependsConfig(
                    use_fastdepends=apply_types,
                    serializer=serializer,
                    provider=provider or dependency_provider,
                    context=context or ContextRepo(),
                ),
                broker_dependencies=dependencies,
                graceful_timeout=graceful_timeout,
                ack_policy=ack_policy,
                id_generator=id_generator,
                extra_context={"broker": self},
            ),
            specification=BrokerSpec(
                url=[urls] if isinstance(urls, str) else list(urls),
                protocol=protocol,
                protocol_version=protocol_version,
                description=description,
                tags=tags,
                security=security,
            ),
        )

        self._starting = asyncio.Lock()

    # Life.

    async def _connect(self) -> Producer:
        config = self.config.broker_config
        assert isinstance(config.producer, GantryProducer)
        config.producer.set_up(config.fd_config._serializer, config.broker_codec)
        timeout = config.graceful_timeout
        return await config.connection.open(5_000 if timeout is None else max(1, int(timeout * 1000)))

    async def start(self) -> None:
        """Connect, and start all subscribers; those that run already go on. When one cannot start, all are stopped."""
        async with self._starting:
            await self.connect()
            try:
                await super().start()
            except BaseException:
                await self.stop()
                raise

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Wait for running handlers, then disconnect. May be called again."""
        try:
            await super().stop(exc_type, exc_val, exc_tb)
        finally:
            self._connection = None
            self._starting = asyncio.Lock()  # the next start may be on another event loop
            await self.config.broker_config.connection.close()

    async def ping(self, timeout: float | None = 3.0) -> bool:
        """Whether the broker is connected and a name server answers within ``timeout`` seconds."""
        if self._connection is None:
            return False
        try:
            async with asyncio.timeout(timeout):
                return await self.config.broker_config.connection.ping()
        except TimeoutError:
            return False

    # Publishing.

    async def publish(
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        session: Any = None,
        **options: Unpack[SendOptions],
    ) -> SendResult | None:
        """Send a message, and return where it was stored.

        ``headers`` become user properties. ``reply_to``: the topic for what the handler returns. ``options``: tags,
        keys, order_key and delays; see ``SendOptions``.

        ``session``: an (Async)Session or connection of SQLAlchemy that ``transactions`` are attached to. The message is
        sent if, and only if, its transaction commits, and None is returned.

        Raises IncorrectState when the broker is not connected, MessageIllegal, RequestRejected, RouteNotFound,
        Unreachable or TimedOut as ``gantrymq.aio.Producer.send``, and ConfigError for a session that takes no message.
        """
        cmd = self._command((message,), topic, PublishType.PUBLISH, headers, correlation_id, options)
        cmd.reply_to, cmd.session = reply_to, session
        result: SendResult | None = await self._basic_publish(cmd, producer=self.config.producer)
        return result

    async def publish_batch(  # type: ignore[override]
        self,
        *messages: Any,
        topic: str = "",
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        session: Any = None,
        **options: Unpack[SendOptions],
    ) -> list[SendResult]:
        """Send several messages of one topic, in as few requests as possible. A GantryResponse among them has headers
        and options of its own. With ``session`` the list is empty. Raises the errors of ``publish``."""
        cmd = self._command(messages or (None,), topic, PublishType.PUBLISH, headers, correlation_id, options)
        cmd.reply_to, cmd.session = reply_to, session
        results: list[SendResult] = await self._basic_publish_batch(cmd, producer=self.config.producer)
        return results

    async def request(  # type: ignore[override]
        self,
        message: Any,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout: float = 3.0,
        **options: Unpack[SendOptions],
    ) -> GantryMessage:
        """Send a request, and return what its handler answers, by RocketMQ's request and reply.

        ``timeout``: seconds. Raises TimeoutError when no reply comes, and the errors of ``publish``.
        """
        cmd = self._command((message,), topic, PublishType.REQUEST, headers, correlation_id, options)
        cmd.timeout = timeout
        reply: GantryMessage = await self._basic_request(cmd, producer=self.config.producer)
        return reply

    def _command(
        self,
        messages: Sequence[Any],
        topic: str,
        kind: PublishType,
        headers: dict[str, Any] | None,
        correlation_id: str | None,
        options: SendOptions,
    ) -> GantryPublishCommand:
        return GantryPublishCommand(
            *messages, topic=topic, headers=headers, correlation_id=correlation_id or self.config.id_generator(),
            sending=sending_of(options), _publish_type=kind,
        )  # fmt: skip
