"""A client of the gRPC door without any rules of its own: messages out, messages in."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc.aio

import grpc
from gantrymq.grpc import definition_pb2 as v2
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.pool import SERVICE

M = TypeVar("M")
SECONDS = 10
DATE = "20261126T120000Z"
_numbers = itertools.count(1)


def resource(name: str) -> v2.Resource:
    return v2.Resource(name=name)


def message(topic: str, body: bytes = b"x", message_id: str | None = None, **system: Any) -> v2.Message:
    """``system``: fields of the system properties that are no messages of their own."""
    made = v2.Message(topic=resource(topic), body=body)
    made.system_properties.message_id = f"01{next(_numbers):032X}" if message_id is None else message_id
    made.system_properties.message_type = v2.MessageType.NORMAL
    made.system_properties.body_encoding = v2.Encoding.IDENTITY
    made.system_properties.born_timestamp.seconds = 1_700_000_000
    for name, value in system.items():
        if isinstance(value, list):
            getattr(made.system_properties, name).extend(value)
        else:
            setattr(made.system_properties, name, value)
    return made


@dataclass
class GrpcClient:
    """One client id. ``key``: access key and secret key."""

    channel: grpc.aio.Channel
    client_id: str = "client-1"
    key: tuple[str, str] | None = None
    commands: asyncio.Queue[service.TelemetryCommand] = field(default_factory=asyncio.Queue)
    say: Callable[[service.TelemetryCommand], Awaitable[None]] = field(init=False)
    """Writes to the stream of ``telemetry``."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        headers = (("x-mq-client-id", self.client_id), ("x-mq-language", "PYTHON"), ("x-mq-date-time", DATE))
        if self.key is None:
            return headers
        name, secret = self.key
        signature = hmac.new(secret.encode(), DATE.encode(), hashlib.sha1).hexdigest()
        signed = f"MQv2-HMAC-SHA1 Credential={name}, SignedHeaders=x-mq-date-time, Signature={signature}"
        return (*headers, ("authorization", signed))

    async def call(self, name: str, request: Any, answer: Callable[..., M], seconds: float = SECONDS) -> M:
        method = self.channel.unary_unary(
            f"/{SERVICE}/{name}",
            type(request).SerializeToString,
            answer.FromString,  # type: ignore[attr-defined]
        )
        return await method(request, timeout=seconds, metadata=self.headers)  # type: ignore[no-any-return]

    async def send(self, *messages: v2.Message) -> service.SendMessageResponse:
        return await self.call(
            "SendMessage", service.SendMessageRequest(messages=messages), service.SendMessageResponse
        )

    async def end(
        self, topic: str, message_id: str, transaction_id: str, resolution: v2.TransactionResolution, source: int = 0
    ) -> v2.Status:
        request = service.EndTransactionRequest(
            topic=resource(topic), message_id=message_id, transaction_id=transaction_id, resolution=resolution,
            source=v2.TransactionSource.Name(source),
        )  # fmt: skip
        return (await self.call("EndTransaction", request, service.EndTransactionResponse)).status

    async def receive(
        self, topic: str, group: str = "group", *, seconds: float = 0.5, invisible: float = 30, count: int = 10,
        expression: str = "*", sql: bool = False, renew: bool = False, queue: int = -1, **fields: Any,
    ) -> tuple[v2.Status, list[v2.Message]]:  # fmt: skip
        kind = v2.FilterType.SQL if sql else v2.FilterType.TAG
        request = service.ReceiveMessageRequest(
            group=resource(group), message_queue=v2.MessageQueue(topic=resource(topic), id=queue), batch_size=count,
            filter_expression=v2.FilterExpression(type=kind, expression=expression), auto_renew=renew,
            **fields,
        )  # fmt: skip
        if not renew:
            request.invisible_duration.seconds, rest = divmod(int(invisible * 1000), 1000)
            request.invisible_duration.nanos = rest * 1_000_000
        request.long_polling_timeout.seconds, rest = divmod(int(seconds * 1000), 1000)
        request.long_polling_timeout.nanos = rest * 1_000_000
        method = self.channel.unary_stream(
            f"/{SERVICE}/ReceiveMessage", service.ReceiveMessageRequest.SerializeToString,
            service.ReceiveMessageResponse.FromString,
        )  # fmt: skip
        status, messages = v2.Status(), []
        async for part in method(request, timeout=seconds + SECONDS, metadata=self.headers):
            if part.HasField("status"):
                status = part.status
            elif part.HasField("message"):
                messages.append(part.message)
        return status, messages

    async def ack(self, topic: str, *received: v2.Message, group: str = "group") -> service.AckMessageResponse:
        entries = [
            service.AckMessageEntry(
                message_id=one.system_properties.message_id,
                receipt_handle=one.system_properties.receipt_handle,
                lite_topic=one.system_properties.lite_topic or None,
            )
            for one in received
        ]
        request = service.AckMessageRequest(group=resource(group), topic=resource(topic), entries=entries)
        return await self.call("AckMessage", request, service.AckMessageResponse)

    async def sync_lite(
        self, action: v2.LiteSubscriptionAction, topic: str, *lite_topics: str, group: str = "group", **fields: Any
    ) -> v2.Status:
        request = service.SyncLiteSubscriptionRequest(
            action=action, topic=resource(topic), group=resource(group), lite_topic_set=lite_topics, **fields
        )
        return (await self.call("SyncLiteSubscription", request, service.SyncLiteSubscriptionResponse)).status

    @asynccontextmanager
    async def telemetry(self, settings: v2.Settings) -> AsyncIterator[service.TelemetryCommand]:
        """The answer to the settings; commands that come behind it are put into ``commands``."""
        method = self.channel.stream_stream(
            f"/{SERVICE}/Telemetry", service.TelemetryCommand.SerializeToString, service.TelemetryCommand.FromString
        )
        stream = method(metadata=self.headers)
        self.say = stream.write
        with contextlib.suppress(grpc.aio.AioRpcError):  # the door may have refused already
            await stream.write(service.TelemetryCommand(settings=settings))
        answer = await stream.read()
        reading = asyncio.create_task(self._read(stream))
        try:
            yield answer
        finally:
            reading.cancel()
            stream.cancel()

    async def _read(self, stream: Any) -> None:
        while (command := await stream.read()) is not grpc.aio.EOF:
            self.commands.put_nowait(command)


def producer(*topics: str) -> v2.Settings:
    settings = v2.Settings(client_type=v2.ClientType.PRODUCER)
    settings.publishing.topics.extend(map(resource, topics))
    settings.publishing.max_body_size = 1
    return settings


def consumer(group: str, topic: str, expression: str = "*") -> v2.Settings:
    settings = v2.Settings(client_type=v2.ClientType.SIMPLE_CONSUMER)
    settings.subscription.group.name = group
    settings.subscription.subscriptions.add(
        topic=resource(topic), expression=v2.FilterExpression(type=v2.FilterType.TAG, expression=expression)
    )
    return settings
