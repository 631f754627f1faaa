"""QueryRoute and QueryAssignment. Source: RouteActivity; docs/grpc.md#calls-and-routes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.access.operations import CONSUME, ROUTE
from gantrymq.broker.grpc.calls import Caller
from gantrymq.broker.grpc.incoming import check_group, check_topic
from gantrymq.broker.grpc.messaging import BrokerTopic, Messaging
from gantrymq.broker.grpc.statuses import Rejected, ok
from gantrymq.grpc.definition_pb2 import (
    AddressScheme,
    Assignment,
    Broker,
    Code,
    Endpoints,
    MessageQueue,
    MessageType,
    Permission,
    Resource,
)
from gantrymq.grpc.service_pb2 import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
)
from gantrymq.message.message_types import TYPE_LITE
from gantrymq.runtime.addresses import numeric, split_address

PERM_READ: Final = 4
PERM_WRITE: Final = 2
_MIXED: Final = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION, MessageType.PRIORITY)
TYPES: Final = {
    "NORMAL": (MessageType.NORMAL,),
    "FIFO": (MessageType.FIFO,),
    "DELAY": (MessageType.DELAY,),
    "TRANSACTION": (MessageType.TRANSACTION,),
    "PRIORITY": (MessageType.PRIORITY,),
    "LITE": (MessageType.LITE,),
}
"""What a topic takes, by its type. A topic without one takes everything here, as our broker does."""
ANY_QUEUE: Final = -1


class Routes:
    """Where topics are."""

    def __init__(self, messaging: Messaging, address: str) -> None:
        """``address``: of this door, for clients that do not say how they reach it."""
        self._messaging = messaging
        self._own = endpoints_of(address)

    async def route(self, caller: Caller, request: QueryRouteRequest) -> QueryRouteResponse:
        """The queues of a topic, of every broker. All are reached through this door."""
        topic = check_topic(request.topic.name)
        caller.demand(ROUTE, (topic,))
        resource = Resource(name=topic, resource_namespace=request.topic.resource_namespace)
        return QueryRouteResponse(
            status=ok(),
            message_queues=[
                MessageQueue(
                    topic=resource, id=number, permission=permission, broker=self._broker(place, request.endpoints),
                    accept_message_types=types_of(place),
                )
                for place in await self._messaging.topic(topic)
                for number, permission in _queues(
                    place.settings.read_queue_nums, place.settings.write_queue_nums, place.permission
                )
            ],
        )  # fmt: skip

    async def assignment(self, caller: Caller, request: QueryAssignmentRequest) -> QueryAssignmentResponse:
        """What a member of a group receives from: whole brokers, or each queue where the group keeps an order."""
        topic, group = check_topic(request.topic.name), check_group(request.group.name)
        caller.demand(CONSUME, (topic,), (group,))
        places = [place for place in await self._messaging.topic(topic) if place.permission & PERM_READ]
        if not places:
            raise Rejected(Code.FORBIDDEN, f"the topic {topic} cannot be read")
        in_order = (
            caller.client.settings is not None
            and places[0].settings.message_type != TYPE_LITE
            and (await self._messaging.group(group)).in_order
        )
        return QueryAssignmentResponse(
            status=ok(),
            assignments=[
                Assignment(
                    message_queue=MessageQueue(
                        topic=request.topic, id=number, permission=Permission.READ,
                        broker=self._broker(place, request.endpoints),
                    )
                )
                for place in places
                for number in (range(place.settings.read_queue_nums) if in_order else (ANY_QUEUE,))
            ],
        )  # fmt: skip

    def _broker(self, place: BrokerTopic, asked_at: Endpoints) -> Broker:
        """Clients open a connection for each address, so they are told the one that they use."""
        at = asked_at if asked_at.addresses else self._own
        return Broker(name=place.broker_name, id=0, endpoints=at)


def types_of(place: BrokerTopic) -> tuple[MessageType, ...]:
    """The types of messages that a topic takes."""
    return TYPES.get(place.settings.message_type, _MIXED)


def endpoints_of(address: str) -> Endpoints:
    host, port = split_address(address)
    literal = numeric(host)
    scheme = AddressScheme.DOMAIN_NAME
    if literal is not None:
        scheme = AddressScheme.IPv6 if ":" in host else AddressScheme.IPv4
    endpoints = Endpoints(scheme=scheme)
    endpoints.addresses.add(host=host, port=port)
    return endpoints


def _queues(readable: int, writable: int, perm: int) -> Iterator[tuple[int, Permission]]:
    """Number and permission: first what can only be read, then what can only be written, then the others."""
    readable = readable if perm & PERM_READ else 0
    writable = writable if perm & PERM_WRITE else 0
    both = min(readable, writable)
    number = 0
    for count, permission in (
        (readable - both, Permission.READ),
        (writable - both, Permission.WRITE),
        (both, Permission.READ_WRITE),
    ):
        for _ in range(count):
            yield number, permission
            number += 1
