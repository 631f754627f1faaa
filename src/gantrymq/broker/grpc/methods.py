"""The methods of the service, by their names. What is not here is answered UNIMPLEMENTED, as by Apache's proxy."""

from __future__ import annotations

from google.protobuf.message import Message

from gantrymq.broker.grpc.acks import AckMethods
from gantrymq.broker.grpc.calls import Calls, Handler
from gantrymq.broker.grpc.lite import LiteMethods
from gantrymq.broker.grpc.membership import Membership
from gantrymq.broker.grpc.receiving import Receiving
from gantrymq.broker.grpc.routes import Routes
from gantrymq.broker.grpc.sending import SendingMethods
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.serving.methods import Method


def methods_of(
    calls: Calls,
    membership: Membership,
    routes: Routes,
    sending: SendingMethods,
    receiving: Receiving,
    acks: AckMethods,
    lite: LiteMethods,
) -> dict[str, Method]:
    handlers: dict[str, Handler] = {
        "QueryRoute": routes.route,
        "QueryAssignment": routes.assignment,
        "Heartbeat": membership.heartbeat,
        "NotifyClientTermination": membership.terminated,
        "SendMessage": sending.send,
        "EndTransaction": sending.end,
        "RecallMessage": sending.recall,
        "SyncLiteSubscription": lite.sync,
        "AckMessage": acks.ack,
        "ChangeInvisibleDuration": acks.change,
        "ForwardMessageToDeadLetterQueue": acks.forward,
    }
    methods = {
        name: Method(_message(f"{name}Request"), calls.one(name, _message(f"{name}Response"), handler))
        for name, handler in handlers.items()
    }
    methods["Telemetry"] = Method(service.TelemetryCommand, membership.telemetry, True, True)
    receive = calls.several("ReceiveMessage", service.ReceiveMessageResponse, receiving.receive)
    methods["ReceiveMessage"] = Method(service.ReceiveMessageRequest, receive, False, True)
    return methods


def _message(name: str) -> type[Message]:
    found: type[Message] = getattr(service, name)
    return found
