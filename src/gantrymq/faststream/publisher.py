"""``@broker.publisher(...)``: sends what a handler returns, or what its ``publish`` is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream.response.publish_type import PublishType

from gantrymq.client.results import SendResult
from gantrymq.faststream.response import GantryPublishCommand, SendOptions, sending_of
from gantrymq.message.message import MessageView

if TYPE_CHECKING:
    from faststream._internal.producer import ProducerProto
    from faststream._internal.types import PublisherMiddleware
    from faststream.response import PublishCommand

    from gantrymq.faststream.config import GantryPublisherConfig
    from gantrymq.faststream.message import GantryMessage


class GantryPublisher(PublisherUsecase):
    """Publishes to one topic, with the options it was made with."""

    batch = False

    def __init__(self, config: GantryPublisherConfig, specification: PublisherSpecification[Any, Any]) -> None:
        super().__init__(config, specification)
        self._topic = config.topic
        self.headers = config.headers
        self.reply_to = config.reply_to
        self.sending = config.sending

    @property
    def topic(self) -> str:
        return f"{self._outer_config.prefix}{self._topic}"

    async def publish(
        self,
        message: Any,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        session: Any = None,
        **options: Unpack[SendOptions],
    ) -> SendResult | None:
        """See ``GantryBroker.publish``."""
        cmd = self._command((message,), topic, PublishType.PUBLISH, headers, correlation_id, options)
        cmd.reply_to, cmd.session = reply_to or self.reply_to, session
        result: SendResult | None = await self._send(cmd, ())
        return result

    async def request(
        self,
        message: Any,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout: float = 3.0,
        **options: Unpack[SendOptions],
    ) -> GantryMessage:
        """See ``GantryBroker.request``."""
        cmd = self._command((message,), topic, PublishType.REQUEST, headers, correlation_id, options)
        cmd.timeout = timeout
        reply: GantryMessage = await self._basic_request(cmd, producer=self._outer_config.producer)
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
            *messages, topic=topic or self.topic, headers=self.headers | (headers or {}),
            correlation_id=correlation_id or self._outer_config.id_generator(),
            sending=sending_of(options).over(self.sending), _publish_type=kind,
        )  # fmt: skip

    async def _publish(self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]) -> None:
        """Called by FastStream with what a handler returned."""
        own = GantryPublishCommand.from_cmd(cmd, batch=self.batch)
        own.destination = self.topic
        own.add_headers(self.headers, override=False)
        own.reply_to = own.reply_to or self.reply_to
        own.sending = own.sending.over(self.sending)
        if self.batch and not own.batch_bodies:
            own.batch_bodies = (b"",)  # nothing was returned: one empty message, as without a batch
        await self._send(own, _extra_middlewares)

    async def _send(self, cmd: GantryPublishCommand, middlewares: Iterable[PublisherMiddleware]) -> Any:
        return await self._basic_publish(cmd, producer=self._outer_config.producer, _extra_middlewares=middlewares)


class GantryBatchPublisher(GantryPublisher):
    """``@broker.publisher(topic, batch=True)``: each item of what a handler returns is a message."""

    batch = True

    async def publish(  # type: ignore[override]
        self,
        *messages: Any,
        topic: str = "",
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        session: Any = None,
        **options: Unpack[SendOptions],
    ) -> list[SendResult]:
        """See ``GantryBroker.publish_batch``."""
        cmd = self._command(messages or (None,), topic, PublishType.PUBLISH, headers, correlation_id, options)
        cmd.reply_to, cmd.session = reply_to or self.reply_to, session
        results: list[SendResult] = await self._send(cmd, ())
        return results

    async def _send(self, cmd: GantryPublishCommand, middlewares: Iterable[PublisherMiddleware]) -> Any:
        producer = self._outer_config.producer
        return await self._basic_publish_batch(cmd, producer=producer, _extra_middlewares=middlewares)


class ReplyPublisher(FakePublisher):
    """Sends what a handler returns to who asked: as the reply to a request, or to the topic in ``reply_to``."""

    def __init__(self, producer: ProducerProto[Any], topic: str, request: MessageView | None) -> None:
        super().__init__(producer=producer)
        self._topic, self._request = topic, request

    def patch_command(self, cmd: PublishCommand) -> GantryPublishCommand:
        own = GantryPublishCommand.from_cmd(super().patch_command(cmd))
        own.destination, own.request = self._topic, self._request
        return own
