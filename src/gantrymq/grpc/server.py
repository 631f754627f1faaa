"""A gRPC server for the methods of one service, on the event loop that runs everything else.

It is grpcio's, with limits and pings that RocketMQ's official clients need.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import grpc.aio
from google.protobuf.message import Message

import grpc
from gantrymq.errors import Unreachable
from gantrymq.runtime.addresses import address_of

SERVICE: Final = "apache.rocketmq.v2.MessagingService"
LARGEST_MESSAGE_BYTES: Final = 130 * 1024 * 1024
"""As Apache's proxy: a client may send several messages of 4 MiB in one request."""
PING_SECONDS_LEAST: Final = 10
"""The C++ client pings every 60 s without calls, the Java client every 300 s; grpcio's default would end both."""

OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", PING_SECONDS_LEAST * 1000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_SECONDS_LEAST * 1000),
)
Context: TypeAlias = grpc.aio.ServicerContext
Unary: TypeAlias = Callable[[Any, Context], Awaitable[Message]]
Stream: TypeAlias = Callable[[Any, Context], AsyncIterator[Message]]


@dataclass(frozen=True, slots=True)
class Method:
    """One method of the service. ``answer`` gets a request, or the stream of requests, and the call."""

    request: type[Message]
    answer: Unary | Stream
    requests_stream: bool = False
    answers_stream: bool = False

    def handler(self) -> grpc.RpcMethodHandler:
        make = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[self.requests_stream, self.answers_stream]
        return make(
            self.answer, request_deserializer=self.request.FromString, response_serializer=_serialized
        )  # fmt: skip


def _serialized(message: Message) -> bytes:
    return bytes(message.SerializeToString())


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the handler of a call, when it comes: the broker may have another role by then."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}

    def service(self, handler_call_details: Any) -> Any:
        return self.handlers.get(handler_call_details.method)


class GrpcServer:
    """``bind``, ``serve`` and ``close`` are called in this order, on one event loop; ``close`` may be called again."""

    def __init__(self) -> None:
        self._server: grpc.aio.Server | None = None
        self._methods = _Methods()
        self._started = False

    def bind(self, host: str, port: int) -> str:
        """Take the port; ``host:port``. Nothing is answered yet. Raises Unreachable when the port is in use."""
        server = grpc.aio.server(options=OPTIONS)
        try:
            bound = server.add_insecure_port(address_of(host, port))
        except RuntimeError as error:
            raise Unreachable(address_of(host, port), "the port is in use or not allowed") from error
        self._server = server
        return address_of(host, bound)

    async def serve(self, methods: Mapping[str, Method]) -> None:
        """Answer calls from now on, with these methods; again, when they are others."""
        self._methods.handlers = {f"/{SERVICE}/{name}": method.handler() for name, method in methods.items()}
        if self._server is not None and not self._started:
            self._started = True
            self._server.add_generic_rpc_handlers((self._methods,))
            await self._server.start()

    async def close(self, grace_s: float) -> None:
        """Take no more calls, and wait ``grace_s`` seconds for those that are under way."""
        if self._server is not None:
            await self._server.stop(grace_s)
