"""A service whose methods do what tests need: answer, wait, stream. Clients of another maker call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from gantrymq.grpc.definition_pb2 import Message
from gantrymq.grpc.serving.call import Requests
from gantrymq.grpc.serving.methods import Context, Method
from gantrymq.grpc.serving.server import GrpcServer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.values import Limits
from gantrymq.runtime.network import Network, TcpNetwork

NAME = "test.Service"
SECONDS = 30


@dataclass
class Service:
    """``began`` and ``ended``: bodies of the requests of ``Wait``."""

    began: list[bytes] = field(default_factory=list)
    ended: list[bytes] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def echo(self, request: Message, context: Context) -> Message:
        self.contexts.append(context)
        return request

    async def wait(self, request: Message, context: Context) -> Message:
        self.began.append(request.body)
        try:
            await self.go_on.wait()
        finally:
            self.ended.append(request.body)
        return request

    async def fail(self, request: Message, context: Context) -> Message:
        raise ZeroDivisionError

    async def several(self, request: Message, context: Context) -> AsyncIterator[Message]:
        """As many as the topic says, each with the body of the request."""
        self.began.append(request.body)
        try:
            for _ in range(int(request.topic.name)):
                yield Message(body=request.body)
        finally:
            self.ended.append(request.body)

    async def talk(self, requests: Requests, context: Context) -> AsyncIterator[Message]:
        context.begin()
        async for request in requests:
            yield request
        yield Message(body=b"bye")

    def methods(self) -> dict[str, Method]:
        return {
            "Echo": Method(Message, self.echo),
            "Wait": Method(Message, self.wait),
            "Fail": Method(Message, self.fail),
            "Several": Method(Message, self.several, answers_stream=True),
            "Talk": Method(Message, self.talk, requests_stream=True, answers_stream=True),
        }


@dataclass
class Caller:
    """Calls by grpcio."""

    channel: grpc.aio.Channel

    def one(self, method: str, body: bytes = b"x", **options: Any) -> Any:
        call = self.channel.unary_unary(f"/{NAME}/{method}", Message.SerializeToString, Message.FromString)
        return call(Message(body=body), timeout=options.pop("timeout", SECONDS), **options)

    def several(self, count: int, body: bytes = b"x", **options: Any) -> Any:
        call = self.channel.unary_stream(f"/{NAME}/Several", Message.SerializeToString, Message.FromString)
        request = Message(body=body)
        request.topic.name = str(count)
        return call(request, timeout=SECONDS, **options)

    def talk(self) -> Any:
        method = self.channel.stream_stream(f"/{NAME}/Talk", Message.SerializeToString, Message.FromString)
        return method(timeout=SECONDS)


@asynccontextmanager
async def serving(
    service: Service, network: Network | None = None, limits: Limits | None = None
) -> AsyncIterator[tuple[GrpcServer, str]]:
    clock = SystemClock()
    server = GrpcServer(network or TcpNetwork(), clock, ClientLimits(clock, limits or Limits()))
    address = await server.listen("127.0.0.1", 0)
    server.serve({NAME: service.methods()})
    try:
        yield server, address
    finally:
        await server.close(0)


def story(
    work: Callable[[Service, GrpcServer, Caller], Awaitable[None]],
    options: tuple[tuple[str, Any], ...] = (),
    limits: Limits | None = None,
) -> None:
    """``options``: of grpcio's channel."""

    async def play() -> None:
        service = Service()
        async with (
            asyncio.timeout(60),
            serving(service, limits=limits) as (server, address),
            grpc.aio.insecure_channel(address, options=options) as channel,
        ):
            await work(service, server, Caller(channel))

    asyncio.run(play())


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.005)
