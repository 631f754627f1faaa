"""Commands of FastStream become messages, and are sent: by the producer, or within a transaction of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import BatchCodecProto, CodecProto, DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream.response import Response

from gantrymq.client.results import SendResult
from gantrymq.errors import ConfigError, TimedOut
from gantrymq.faststream.parser import GantryParser, properties_of
from gantrymq.faststream.response import GantryPublishCommand, GantryResponse, Sending
from gantrymq.message.message import Message, MessageView
from gantrymq.message.properties import DELAYS, RESERVED

if TYPE_CHECKING:
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.types import CustomCallable

    from gantrymq.faststream.connection import Connection


async def messages_of(
    cmd: GantryPublishCommand, codec: CodecProto, serializer: SerializerProto | None
) -> list[tuple[Message, str | None]]:
    """The messages of a command, each with its order key. A body may be a GantryResponse with options of its own."""
    made = []
    items = cmd.batch_bodies or (None,)
    bodies = [item.body if isinstance(item, Response) else item for item in items]
    if len(bodies) > 1 and isinstance(codec, BatchCodecProto):
        encoded = await codec.encode_batch(bodies, serializer)
    else:
        encoded = [await codec.encode(body, serializer) for body in bodies]
    for item, (data, content_type) in zip(items, encoded, strict=True):
        headers, sending = cmd.headers_to_publish(), cmd.sending
        if isinstance(item, Response):
            headers |= item.headers
            if item.correlation_id:
                headers["correlation_id"] = item.correlation_id
        if isinstance(item, GantryResponse):
            sending = item.sending.over(sending)
        made.append((_message(cmd.destination, data, content_type, headers, sending), sending.order_key))
    return made


def _message(topic: str, data: bytes, content_type: str | None, headers: dict[str, Any], sending: Sending) -> Message:
    if not topic:
        raise ConfigError('publishing needs a topic: publish(message, "orders-paid")')
    return sending.message(topic, data, properties_of(headers, data, content_type))


class GantryProducer(ProducerProto[GantryPublishCommand]):
    """Sends what a broker publishes."""

    def __init__(self, connection: Connection, parser: CustomCallable | None, decoder: CustomCallable | None) -> None:
        default = GantryParser()
        self._connection = connection
        self._parser = ParserComposition(parser, default.parse_message)
        self._decoder = ParserComposition(decoder, default.decode_message)
        self.codec: CodecProto = DefaultCodec()
        self.serializer: SerializerProto | None = None

    def set_up(self, serializer: SerializerProto | None, codec: CodecProto | None) -> None:
        self.serializer = serializer
        self.codec = codec or DefaultCodec()

    async def publish(self, cmd: GantryPublishCommand) -> SendResult | None:
        """None: the message belongs to ``cmd.session``, and is sent when that commits."""
        if not cmd.destination and cmd.request is not None:
            cmd.destination = cmd.request.topic  # where it goes is decided by the request
        [(message, order_key)] = await messages_of(cmd, self.codec, self.serializer)
        if cmd.request is not None:
            own = {name: text for name, text in message.properties.items() if name not in RESERVED}
            return await self._connection.producer.reply(cmd.request, message.body, properties=own)
        if cmd.session is not None:
            self._connection.send_in(cmd.session, message, order_key)
            return None
        if order_key is not None:
            return await self._connection.producer.send_ordered(message, order_key)
        return await self._connection.producer.send(message)

    async def publish_batch(self, cmd: GantryPublishCommand) -> list[SendResult]:
        """Messages without order key and delay go in batches; the others one by one, in order."""
        if not cmd.batch_bodies:
            raise ConfigError("publish_batch was given no message")
        made = await messages_of(cmd, self.codec, self.serializer)
        if cmd.session is not None:
            for message, order_key in made:
                self._connection.send_in(cmd.session, message, order_key)
            return []
        producer = self._connection.producer
        if all(order_key is None and not _delayed(message) for message, order_key in made):
            return await producer.send_batches([message for message, _ in made])
        return [
            await (producer.send(message) if order_key is None else producer.send_ordered(message, order_key))
            for message, order_key in made
        ]

    async def request(self, cmd: GantryPublishCommand) -> MessageView:
        """Raises TimeoutError when no reply comes in time."""
        [(message, order_key)] = await messages_of(cmd, self.codec, self.serializer)
        if order_key is not None:
            raise ConfigError("a request takes no order_key: its reply is awaited at once")
        timeout_ms = None if cmd.timeout is None else max(1, int(cmd.timeout * 1000))
        try:
            return await self._connection.producer.request(message, timeout_ms)
        except TimedOut as error:
            raise TimeoutError(str(error)) from error


def _delayed(message: Message) -> bool:
    return not DELAYS.isdisjoint(message.properties)
