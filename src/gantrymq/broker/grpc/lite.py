"""SyncLiteSubscription. Source: LiteSubscriptionActivity of 5.5.0; docs/grpc.md#lite-topics."""

from __future__ import annotations

from typing import Final

from gantrymq.access.operations import POP
from gantrymq.broker.grpc.calls import Caller
from gantrymq.broker.grpc.clients import GrpcClient, GrpcClients
from gantrymq.broker.grpc.incoming import check_group, check_lite, check_topic
from gantrymq.broker.grpc.messaging import LiteChange, Messaging
from gantrymq.broker.grpc.statuses import Rejected, ok
from gantrymq.broker.pop.lite.starts import LiteStart, StartKind
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.grpc.definition_pb2 import Code, LiteSubscriptionAction, OffsetOption
from gantrymq.grpc.service_pb2 import (
    NotifyUnsubscribeLiteCommand,
    SyncLiteSubscriptionRequest,
    SyncLiteSubscriptionResponse,
    TelemetryCommand,
)
from gantrymq.protocol.bodies.lite import LiteAction

_POLICIES: Final = {
    OffsetOption.Policy.LAST: StartKind.LAST,
    OffsetOption.Policy.MIN: StartKind.MIN,
    OffsetOption.Policy.MAX: StartKind.MAX,
}
_NUMBERS: Final = {"offset": StartKind.OFFSET, "tail_n": StartKind.TAIL, "timestamp": StartKind.TIME}


_ACTIONS: Final = {
    LiteSubscriptionAction.PARTIAL_ADD: LiteAction.PARTIAL_ADD,
    LiteSubscriptionAction.COMPLETE_ADD: LiteAction.COMPLETE_ADD,
    LiteSubscriptionAction.PARTIAL_REMOVE: LiteAction.PARTIAL_REMOVE,
    LiteSubscriptionAction.COMPLETE_REMOVE: LiteAction.COMPLETE_REMOVE,
}


class LiteMethods:
    """What consumers of lite topics call, beside what all consumers do."""

    def __init__(self, messaging: Messaging) -> None:
        self._messaging = messaging

    async def sync(self, caller: Caller, request: SyncLiteSubscriptionRequest) -> SyncLiteSubscriptionResponse:
        """The client says which lite topics it reads: some more, some less, or exactly which. It repeats the whole list
        once in a while."""
        topic, group = check_topic(request.topic.name), check_group(request.group.name)
        caller.demand(POP, (topic,), (group,))
        action = _ACTIONS.get(request.action)
        if action is None:
            raise Rejected(Code.BAD_REQUEST, f"the action {request.action} is not known")
        lite_topics = tuple(check_lite(name) for name in request.lite_topic_set)
        change = LiteChange(action, topic, lite_topics, _start_of(request))
        await self._messaging.read_lite(reader_of(caller.client, group), change)
        return SyncLiteSubscriptionResponse(status=ok())


def tell_evicted(clients: GrpcClients, name: str, lite_topic: str) -> None:
    """A client, which may be away, hears that another one of its group has a lite topic now."""
    client = clients.named(name)
    if client is not None:
        command = NotifyUnsubscribeLiteCommand(lite_topic=lite_topic)
        client.command(TelemetryCommand(notify_unsubscribe_lite_command=command))


def reader_of(client: GrpcClient, group: str) -> LiteReader:
    """Raises Rejected for a client whose name is too long to be kept."""
    if not client.name:
        raise Rejected(Code.BAD_REQUEST, "the client id is too long")
    return LiteReader(client.name, group)


def _start_of(request: SyncLiteSubscriptionRequest) -> LiteStart | None:
    if not request.HasField("offset_option"):
        return None
    option = request.offset_option
    kind = option.WhichOneof("offset_type")
    if kind in _NUMBERS:
        return LiteStart(_NUMBERS[kind], getattr(option, kind))
    return LiteStart(_POLICIES.get(option.policy, StartKind.LAST))
