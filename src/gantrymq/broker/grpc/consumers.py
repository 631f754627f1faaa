"""The member of a consumer group that a client is, by what its settings say. Pure. Source: ClientActivity."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.filtering.selection import SQL92
from gantrymq.grpc.definition_pb2 import ClientType, FilterType, Settings, SubscriptionEntry
from gantrymq.message.heartbeat import ConsumerData, ConsumeType, SubscriptionData
from gantrymq.protocol.bodies.progress import ConsumerRunning

CONSUMERS: Final = frozenset(
    {
        ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER, ClientType.LITE_PUSH_CONSUMER,
        ClientType.LITE_SIMPLE_CONSUMER,
    }
)  # fmt: skip
_ASKS_ITSELF: Final = frozenset({ClientType.SIMPLE_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER})


def consumer_of(settings: Settings, since_ms: int) -> ConsumerData:
    """The member. ``since_ms``: the version of its subscriptions."""
    return ConsumerData(
        group_name=settings.subscription.group.name,
        consume_type=ConsumeType.PULL if settings.client_type in _ASKS_ITSELF else ConsumeType.PUSH,
        subscription_data_set=[_subscription_of(entry, since_ms) for entry in settings.subscription.subscriptions],
    )


def running_of(settings: Settings, since_ms: int, stack: str | None) -> ConsumerRunning:
    """The member in the terms of ``mqadmin consumerStatus``, as far as the door knows it: it has no queues of its own.
    ``since_ms``: when it was first heard; ``stack``: what it says of its threads. Tools of RocketMQ need the first
    four properties.
    """
    consumer, agent = consumer_of(settings, since_ms), settings.user_agent
    properties = {
        "PROP_CONSUME_TYPE": consumer.consume_type.value,
        "PROP_CONSUMEORDERLY": str(settings.subscription.fifo).lower(),
        "PROP_CLIENT_VERSION": agent.version,
        "PROP_CONSUMER_START_TIMESTAMP": str(since_ms),
        "consumerGroup": consumer.group_name,
        "clientType": ClientType.Name(settings.client_type),
        "hostname": agent.hostname,
        "platform": agent.platform,
    }
    return ConsumerRunning(
        properties=properties, subscription_set=sorted(consumer.subscription_data_set, key=lambda one: one.topic),
        jstack=stack,
    )  # fmt: skip


def _subscription_of(entry: SubscriptionEntry, now_ms: int) -> SubscriptionData:
    if entry.expression.type == FilterType.SQL:
        return SubscriptionData(
            topic=entry.topic.name, sub_string=entry.expression.expression, sub_version=now_ms, expression_type=SQL92
        )
    return SubscriptionData.of_tags(entry.topic.name, entry.expression.expression or "*", now_ms)
