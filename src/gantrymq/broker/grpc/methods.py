"""The methods of the service, by their names. What is not here is answered UNIMPLEMENTED, as by Apache's proxy."""

from __future__ import annotations

from google.protobuf.message import Message

from gantrymq.broker.grpc.acks import AckMethods
from gantrymq.broker.grpc.calls import Calls, Handler
from gantrymq.broker.grpc.clients import GrpcClients
from gantrymq.broker.grpc.deliveries import HeldDeliveries
from gantrymq.broker.grpc.lite import LiteMethods
from gantrymq.broker.grpc.membership import Membership
from gantrymq.broker.grpc.messaging import Messaging
from gantrymq.broker.grpc.receiving import Receiving
from gantrymq.broker.grpc.routes import Routes
from gantrymq.broker.grpc.sending import SendingMethods
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.serving.methods import Method
from gantrymq.runtime.clock import Clock


def methods_of(
    messaging: Messaging, calls: Calls, clients: GrpcClients, held: HeldDeliveries, clock: Clock, address: str
) -> dict[str, Method]:
    """``address``: of the door."""
    membership = Membership(clock, messaging, clients, calls)
    routes, sending = Routes(messaging, address), SendingMethods(messaging, membership)
    receiving, acks = Receiving(messaging, clock, held), AckMethods(messaging, clock, held)
    handlers: dict[str, Handler] = {
        "QueryRoute": routes.route,
        "QueryAssignment": routes.assignment,
        "Heartbeat": membership.heartbeat,
        "NotifyClientTermination": membership.terminated,
        "SendMessage": sending.send,
        "EndTransaction": sending.end,
        "RecallMessage": sending.recall,
        "AckMessage": acks.ack,
        "ChangeInvisibleDuration": acks.change,
        "ForwardMessageToDeadLetterQueue": acks.forward,
        "SyncLiteSubscription": LiteMethods(messaging).sync,
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
