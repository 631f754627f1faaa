"""Who is connected: 203, 204, 328, 345. Source: AdminBrokerProcessor."""

from __future__ import annotations

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups, Member, ProducerGroups
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.bodies.progress import (
    ClientConnection,
    ConsumerConnections,
    LiveProducer,
    ProducerConnections,
    ProducerTable,
    SubscriptionAnswer,
)
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import ConsumerGroupOnly, GroupSubscription, ProducerGroupOnly
from gantrymq.runtime.clock import Clock


class ConnectionProcessor:
    """What tools ask about live clients."""

    def __init__(self, producers: ProducerGroups, consumers: ConsumerGroups, clock: Clock) -> None:
        self._producers = producers
        self._consumers = consumers
        self._clock = clock

    def consumers(self, session: ClientSession, command: Command) -> bytes:
        """GET_CONSUMER_CONNECTION_LIST."""
        name = command.header(ConsumerGroupOnly).consumer_group
        group = self._consumers.get(name)
        if group is None:
            raise Refused(Refusal.CONSUMER_OFFLINE, f"the consumer group[{name}] not online")
        body = ConsumerConnections(
            connection_set=[_connection(member) for member in group.members.values()],
            subscription_table={topic: subscription.data for topic, subscription in group.subscriptions.items()},
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def producers(self, session: ClientSession, command: Command) -> bytes:
        """GET_PRODUCER_CONNECTION_LIST."""
        name = command.header(ProducerGroupOnly).producer_group
        members = self._producers.members(name)
        if not members:
            raise Refused(Refusal.FAILED, f"the producer group[{name}] not exist")
        body = ProducerConnections(connection_set=[_connection(member) for member in members])
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def all_producers(self, session: ClientSession, command: Command) -> bytes:
        """GET_ALL_PRODUCER_INFO."""
        now_ms, now = self._clock.wall_ms(), self._clock.monotonic()
        data = {
            group: [
                LiveProducer(
                    client_id=member.client_id,
                    remote_ip=f"/{member.session.peer}",
                    language=member.language,
                    version=member.version,
                    last_update_timestamp=now_ms - int((now - member.heard_at) * 1000),
                )
                for member in self._producers.members(group)
            ]
            for group in self._producers.groups()
        }
        return encode_response(command, ResponseCode.SUCCESS, body=ProducerTable(data=data).encode())

    def subscription(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_SUBSCRIPTION_BY_CONSUMER: what a group that is online wants of a topic."""
        header = command.header(GroupSubscription)
        group = self._consumers.get(header.group)
        subscription = group.subscriptions.get(header.topic) if group is not None else None
        body = SubscriptionAnswer(
            group=header.group, topic=header.topic, subscription_data=subscription.data if subscription else None
        )
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())


def _connection(member: Member) -> ClientConnection:
    return ClientConnection(
        client_id=member.client_id, client_addr=member.session.peer, language=member.language, version=member.version
    )
