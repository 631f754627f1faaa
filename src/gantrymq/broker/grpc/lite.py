"""SyncLiteSubscription. Source: LiteSubscriptionActivity of 5.5.0; docs/grpc.md#lite-topics."""

from __future__ import annotations

from typing import Final

from gantrymq.access.operations import POP
from gantrymq.broker.grpc.calls import Caller
from gantrymq.broker.grpc.clients import GrpcClient, GrpcClients
from gantrymq.broker.grpc.incoming import check_group, check_topic
from gantrymq.broker.grpc.statuses import Rejected, ok
from gantrymq.broker.operations.operations import Operations
from gantrymq.broker.pop.lite.starts import LiteStart, StartKind
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.grpc.definition_pb2 import Code, LiteSubscriptionAction, OffsetOption
from gantrymq.grpc.service_pb2 import (
    NotifyUnsubscribeLiteCommand,
    SyncLiteSubscriptionRequest,
    SyncLiteSubscriptionResponse,
    TelemetryCommand,
)

_POLICIES: Final = {
    OffsetOption.Policy.LAST: StartKind.LAST,
    OffsetOption.Policy.MIN: StartKind.MIN,
    OffsetOption.Policy.MAX: StartKind.MAX,
}
_NUMBERS: Final = {"offset": StartKind.OFFSET, "tail_n": StartKind.TAIL, "timestamp": StartKind.TIME}


class LiteMethods:
    """What consumers of lite topics call, beside what all consumers do."""

    def __init__(self, operations: Operations, clients: GrpcClients) -> None:
        self._lite = operations.consuming.popping.lite
        self._clients = clients
        self._lite.evicted.append(self._evicted)

    async def sync(self, caller: Caller, request: SyncLiteSubscriptionRequest) -> SyncLiteSubscriptionResponse:
        """The client says which lite topics it reads: some more, some less, or exactly which. It repeats the whole list
        once in a while."""
        topic, group = check_topic(request.topic.name), check_group(request.group.name)
        caller.demand(POP, (topic,), (group,))
        reader, lite_topics = reader_of(caller.client, group), list(request.lite_topic_set)
        if request.action == LiteSubscriptionAction.PARTIAL_ADD:
            self._lite.subscribe(reader, topic, lite_topics, _start_of(request))
        elif request.action == LiteSubscriptionAction.COMPLETE_ADD:
            self._lite.subscribe_exactly(reader, topic, lite_topics)
        elif request.action == LiteSubscriptionAction.PARTIAL_REMOVE:
            self._lite.unsubscribe(reader, topic, lite_topics)
        elif request.action == LiteSubscriptionAction.COMPLETE_REMOVE:
            self._lite.leave(reader)
        else:
            raise Rejected(Code.BAD_REQUEST, f"the action {request.action} is not known")
        return SyncLiteSubscriptionResponse(status=ok())

    def _evicted(self, reader: LiteReader, lite_topic: str) -> None:
        client = self._clients.named(reader.client)
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
