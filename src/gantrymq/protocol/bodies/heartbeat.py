"""The heartbeat as a body, and what else is said about the members of groups."""

from __future__ import annotations

from msgspec import field

from gantrymq.message.heartbeat import Heartbeat, SubscriptionData
from gantrymq.protocol.body import Body


class HeartbeatData(Body, Heartbeat, frozen=True, kw_only=True):
    """Request body of HEART_BEAT."""


class ConsumerIdList(Body, frozen=True, kw_only=True):
    """Answer to GET_CONSUMER_LIST_BY_GROUP: the client ids of the live members."""

    consumer_id_list: list[str] = field(default_factory=list)


class CheckClient(Body, frozen=True, kw_only=True):
    """Request body of CHECK_CLIENT_CONFIG, which asks whether the broker can evaluate a subscription. Source:
    CheckClientRequestBody."""

    client_id: str
    group: str
    subscription_data: SubscriptionData
