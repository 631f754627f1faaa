"""From a call to a handler and back: who calls, and what an error becomes.

Every answer of the service has a status, so an error is an answer, too; the status of gRPC itself stays OK.
Source: GrpcConstants, ResponseBuilder, DefaultAuthenticationContextBuilder; docs/grpc.md#calls-and-routes.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from gantrymq.access.guard import Denied, Guard
from gantrymq.access.operations import Operation, Role
from gantrymq.access.values import User
from gantrymq.broker.grpc.clients import GrpcClient, GrpcClients
from gantrymq.broker.grpc.statuses import REFUSED, Rejected, status_of
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.write_gate import WriteGate
from gantrymq.grpc.definition_pb2 import Code, Status
from gantrymq.grpc.serving.methods import Context, Stream, Unary
from gantrymq.protocol.signature import SIGNATURE
from gantrymq.runtime.addresses import host_of

log = logging.getLogger("gantrymq.grpc")

CLIENT_ID: Final = "x-mq-client-id"
LANGUAGE: Final = "x-mq-language"
DATE: Final = "x-mq-date-time"
AUTHORIZATION: Final = "authorization"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call."""

    client: GrpcClient
    guard: Guard | None
    remaining_s: float | None
    """Until the client gives the call up; None: it waits for ever."""
    gate: WriteGate

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


Handler = Callable[[Caller, Any], Awaitable[Message]]
StreamHandler = Callable[[Caller, Any], AsyncIterator[Message]]


class Calls:
    """Makes what the server calls of what the door has."""

    def __init__(self, clients: GrpcClients, guard: Guard | None, gate: WriteGate) -> None:
        self._clients = clients
        self._guard = guard
        self._gate = gate

    def one(self, answer: Callable[..., Message], handler: Handler) -> Unary:
        """``answer``: the class of the answers."""

        async def handle(request: Any, context: Context) -> Message:
            try:
                return await handler(self.caller(context), request)
            except Exception as error:  # noqa: BLE001 # it is logged, and the client gets an answer
                return answer(status=failed(error))

        return handle

    def several(self, answer: Callable[..., Message], handler: StreamHandler) -> Stream:
        """The same for a method whose answers are a stream."""

        async def handle(request: Any, context: Context) -> AsyncIterator[Message]:
            try:
                async for one in handler(self.caller(context), request):
                    yield one
            except Exception as error:  # noqa: BLE001 # it is logged, and the client gets an answer
                yield answer(status=failed(error))

        return handle

    def caller(self, context: Context) -> Caller:
        """Raises Rejected when the client does not say who it is, or its signature is wrong."""
        headers, address = context.headers, context.peer
        client_id = headers.get(CLIENT_ID, "")
        if not client_id:
            raise Rejected(Code.CLIENT_ID_REQUIRED, f"the header {CLIENT_ID} is missing")
        user = None if self._guard is None else self._user(self._guard, headers, address)
        client = self._clients.heard(client_id, user, address, headers.get(LANGUAGE, "OTHER"))
        if client is None:
            raise Rejected(Code.TOO_MANY_REQUESTS, "too many clients are connected; close some, or try again later")
        return Caller(client, self._guard, context.remaining_s, self._gate)

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
