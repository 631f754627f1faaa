"""The methods of the service, by their names. What is not here is answered UNIMPLEMENTED, as by Apache's proxy."""

from __future__ import annotations

from gantrymq.broker.grpc.acks import AckMethods
from gantrymq.broker.grpc.calls import Calls
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
) -> dict[str, Method]:
    one, several = calls.one, calls.several
    return {
        "QueryRoute": Method(service.QueryRouteRequest, one(service.QueryRouteResponse, routes.route)),
        "QueryAssignment": Method(
            service.QueryAssignmentRequest, one(service.QueryAssignmentResponse, routes.assignment)
        ),
        "Telemetry": Method(service.TelemetryCommand, membership.telemetry, True, True),
        "Heartbeat": Method(service.HeartbeatRequest, one(service.HeartbeatResponse, membership.heartbeat)),
        "NotifyClientTermination": Method(
            service.NotifyClientTerminationRequest, one(service.NotifyClientTerminationResponse, membership.terminated)
        ),
        "SendMessage": Method(service.SendMessageRequest, one(service.SendMessageResponse, sending.send)),
        "EndTransaction": Method(service.EndTransactionRequest, one(service.EndTransactionResponse, sending.end)),
        "RecallMessage": Method(service.RecallMessageRequest, one(service.RecallMessageResponse, sending.recall)),
        "ReceiveMessage": Method(
            service.ReceiveMessageRequest, several(service.ReceiveMessageResponse, receiving.receive), False, True
        ),
        "AckMessage": Method(service.AckMessageRequest, one(service.AckMessageResponse, acks.ack)),
        "ChangeInvisibleDuration": Method(
            service.ChangeInvisibleDurationRequest, one(service.ChangeInvisibleDurationResponse, acks.change)
        ),
        "ForwardMessageToDeadLetterQueue": Method(
            service.ForwardMessageToDeadLetterQueueRequest,
            one(service.ForwardMessageToDeadLetterQueueResponse, acks.forward),
        ),
    }
