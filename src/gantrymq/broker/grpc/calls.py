"""From a call to a handler and back: who calls, and what an error becomes.

Every answer of the service has a status, so an error is an answer, too; the status of gRPC itself stays OK.
Source: GrpcConstants, ResponseBuilder, DefaultAuthenticationContextBuilder; docs/grpc.md#calls-and-routes.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from gantrymq.access.guard import Denied, Guard
from gantrymq.access.operations import Operation, Role
from gantrymq.access.values import User, sharer_of
from gantrymq.broker.grpc.clients import GrpcClient, GrpcClients
from gantrymq.broker.grpc.latency import GrpcLatency
from gantrymq.broker.grpc.statuses import REFUSED, Rejected, status_of
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.write_gate import WriteGate
from gantrymq.grpc.definition_pb2 import Code, Status
from gantrymq.grpc.serving.methods import Context, Stream, Unary
from gantrymq.protocol.signature import SIGNATURE
from gantrymq.runtime.addresses import host_of
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.connections import client_of
from gantrymq.runtime.limits.refusals import Reason

log = logging.getLogger("gantrymq.grpc")

CLIENT_ID: Final = "x-mq-client-id"
LANGUAGE: Final = "x-mq-language"
DATE: Final = "x-mq-date-time"
AUTHORIZATION: Final = "authorization"


class Caller(NamedTuple):
    """Who makes a call. A tuple, because one is made for each call."""

    client: GrpcClient
    guard: Guard | None
    context: Context
    gate: WriteGate

    @property
    def remaining_s(self) -> float | None:
        """Until the client gives the call up; None: it waits for ever."""
        return self.context.remaining_s

    def demand(self, operation: Operation, topics: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> None:
        """Raises Rejected unless the user of the client may have the operation on all that is named."""
        if operation.writes:
            self.gate.check()
        if self.guard is None:
            return
        try:
            self.guard.demand_operation(
                self.client.user, operation, {Role.TOPIC: topics, Role.GROUP: groups}, host_of(self.client.address)
            )
        except Denied as denied:
            raise Rejected(Code.UNAUTHORIZED, str(denied)) from None


Handler = Callable[[Caller, Any], Awaitable[Any]]
StreamHandler = Callable[[Caller, Any], AsyncGenerator[Any, None]]


class Calls:
    """Makes what the server calls of what the door has."""

    def __init__(
        self, clients: GrpcClients, guard: Guard | None, gate: WriteGate, limits: ClientLimits, latency: GrpcLatency,
        check_users: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """``check_users``: raises Refused while nobody can be judged."""
        self._check_users = check_users
        self._clients = clients
        self._guard = guard
        self._gate = gate
        self._limits = limits
        self._latency = latency

    def one(self, name: str, answer: Callable[..., Any], handler: Handler) -> Unary:
        """``name``: of the method. ``answer``: the class of the answers."""
        latency = self._latency

        async def handle(request: Any, context: Context) -> Message:
            began = latency.began()
            try:
                said = await handler(self.caller(context), request)
            except Exception as error:  # noqa: BLE001 # it is logged, and the client gets an answer
                said = answer(status=failed(error))
            latency.answered(name, said.status.code, began)
            return said

        return handle

    def several(self, name: str, answer: Callable[..., Any], handler: StreamHandler) -> Stream:
        """The same for a method whose answers are a stream; its first answer has the status."""
        latency = self._latency

        async def handle(request: Any, context: Context) -> AsyncIterator[Message]:
            began, measured = latency.began(), False
            try:
                async with aclosing(handler(self.caller(context), request)) as answers:
                    async for one in answers:
                        if not measured:
                            measured = True
                            latency.answered(name, one.status.code, began)
                        yield one
            except Exception as error:  # noqa: BLE001 # it is logged, and the client gets an answer
                said = answer(status=failed(error))
                latency.answered(name, said.status.code, began)
                yield said

        return handle

    def caller(self, context: Context) -> Caller:
        """Raises Rejected when the client does not say who it is, or its signature is wrong; Refused while nobody can
        be judged."""
        headers, address = context.headers, context.peer
        client_id = headers.get(CLIENT_ID, "")
        if not client_id:
            raise Rejected(Code.CLIENT_ID_REQUIRED, f"the header {CLIENT_ID} is missing")
        self._check_users()
        user = None if self._guard is None else self._user(self._guard, headers, address)
        client = self._clients.heard(client_id, user, address, headers.get(LANGUAGE, "OTHER"))
        if client is None:
            raise Rejected(Code.TOO_MANY_REQUESTS, "too many clients are connected; close some, or try again later")
        self._count(client_of(address) if user is None else sharer_of(user), address)
        return Caller(client, self._guard, context, self._gate)

    def _count(self, who: str, address: str) -> None:
        """Raises Rejected when the client has sent too many requests in this second, through all doors together."""
        limits = self._limits
        if limits.requests.per_second == 0 or limits.requests.of(who).take():
            return
        text = f"more than {limits.requests.per_second} requests in a second; send slower (maxRequestsPerSecond)"
        limits.refusals.note(Reason.REQUESTS, address, f"refused a call of gRPC: {text}")
        raise Rejected(Code.TOO_MANY_REQUESTS, text)

    def _user(self, guard: Guard, headers: Mapping[str, str], address: str) -> User:
        name, signature = credentials(headers.get(AUTHORIZATION, ""))
        signed = headers.get(DATE, "").encode()
        try:
            return guard.sender(name, lambda key: key.signs({SIGNATURE: signature}, signed), host_of(address))
        except Denied as denied:
            raise Rejected(Code.UNAUTHORIZED, str(denied)) from None


def failed(error: Exception) -> Status:
    """The status of an answer to a call that failed. What nobody expected is logged."""
    if isinstance(error, REFUSED):
        return status_of(error)
    log.exception("a call of gRPC failed", exc_info=error)
    return status_of(Refused(Refusal.FAILED, "the broker could not answer; its log says why"))


def credentials(header: str) -> tuple[str, str]:
    """Access key, and the signature as Base64, of an ``authorization`` header; empty where it has none.

    Form: ``MQv2-HMAC-SHA1 Credential=<key>[/...], SignedHeaders=x-mq-date-time, Signature=<hex>``.
    """
    parts = dict(
        (name.strip(), value.strip())
        for name, _, value in (part.partition("=") for part in header.partition(" ")[2].split(","))
    )
    try:
        signature = base64.b64encode(binascii.unhexlify(parts.get("Signature", ""))).decode()
    except (binascii.Error, ValueError):
        signature = ""
    return parts.get("Credential", "").partition("/")[0], signature
