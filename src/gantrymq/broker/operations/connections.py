"""Lists of connected clients, for tools. Source: AdminBrokerProcessor."""

from __future__ import annotations

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups, Member, ProducerGroups
from gantrymq.message.connections import ClientConnection, GroupConnections, LiveProducer
from gantrymq.message.heartbeat import SubscriptionData
from gantrymq.runtime.clock import Clock


class Connections:
    """What tools ask about live clients."""

    def __init__(self, producers: ProducerGroups, consumers: ConsumerGroups, clock: Clock) -> None:
        self._producers = producers
        self._consumers = consumers
        self._clock = clock

    def consumers(self, name: str) -> GroupConnections:
        """The members of a consumer group that is online, and its subscriptions."""
        group = self._consumers.get(name)
        if group is None:
            raise Refused(Refusal.CONSUMER_OFFLINE, f"the consumer group[{name}] not online")
        return GroupConnections(
            connection_set=[_connection(member) for member in group.members.values()],
            subscription_table={topic: subscription.data for topic, subscription in group.subscriptions.items()},
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
            subscription_conflicts=group.conflicts() or None,
        )

    def producers(self, name: str) -> list[ClientConnection]:
        """The members of a producer group."""
        members = self._producers.members(name)
        if not members:
            raise Refused(Refusal.FAILED, f"the producer group[{name}] not exist")
        return [_connection(member) for member in members]

    def all_producers(self) -> dict[str, list[LiveProducer]]:
        """The members of all producer groups, by group."""
        now_ms, now = self._clock.wall_ms(), self._clock.monotonic()
        return {
            group: [
                LiveProducer(
                    client_id=member.client_id,
                    remote_ip=f"/{member.connection.address}",
                    language=member.language,
                    version=member.version,
                    last_update_timestamp=now_ms - int((now - member.heard_at) * 1000),
                )
                for member in self._producers.members(group)
            ]
            for group in self._producers.groups()
        }

    def subscription(self, group_name: str, topic: str) -> SubscriptionData | None:
        """What a group that is online wants of a topic."""
        group = self._consumers.get(group_name)
        subscription = group.subscriptions.get(topic) if group is not None else None
        return subscription.data if subscription is not None else None


def _connection(member: Member) -> ClientConnection:
    return ClientConnection(
        client_id=member.client_id,
        client_addr=member.connection.address,
        language=member.language,
        version=member.version,
    )
