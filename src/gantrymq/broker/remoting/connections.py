"""Lists of connected clients: 203, 204, 328, 345."""

from __future__ import annotations

from gantrymq.broker.operations.connections import Connections
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.bodies.progress import ProducerConnections, ProducerTable, SubscriptionAnswer
from gantrymq.protocol.body import encode
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import ConsumerGroupOnly, GroupSubscription, ProducerGroupOnly


class ConnectionHandler:
    """What tools ask about live clients."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def consumers(self, session: ClientSession, command: Command) -> bytes:
        """GET_CONSUMER_CONNECTION_LIST."""
        body = self._connections.consumers(command.header(ConsumerGroupOnly).consumer_group)
        return encode_response(command, ResponseCode.SUCCESS, body=encode(body))

    def producers(self, session: ClientSession, command: Command) -> bytes:
        """GET_PRODUCER_CONNECTION_LIST."""
        members = self._connections.producers(command.header(ProducerGroupOnly).producer_group)
        body = ProducerConnections(connection_set=members)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def all_producers(self, session: ClientSession, command: Command) -> bytes:
        """GET_ALL_PRODUCER_INFO."""
        body = ProducerTable(data=self._connections.all_producers())
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def subscription(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_SUBSCRIPTION_BY_CONSUMER."""
        header = command.header(GroupSubscription)
        data = self._connections.subscription(header.group, header.topic)
        body = SubscriptionAnswer(group=header.group, topic=header.topic, subscription_data=data)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())
