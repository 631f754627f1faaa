"""Consumer groups as ``config/subscriptionGroup.json`` has them. Tools get and send the same objects.

Source: SubscriptionGroupConfig, SubscriptionGroupWrapper; docs/store.md#configuration-files.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import field

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.body import Body
from gantrymq.protocol.files.topics import DataVersion

PRIORITY_FACTOR: Final = "priority.factor"
PRIORITY_FACTOR_MAX: Final = 100
"""The default, too: all pops go by priority."""
LITE_BIND_TOPIC: Final = "lite.bind.topic"
LITE_SUB_MODEL: Final = "lite.sub.model"
LITE_SHARED: Final = "Shared"
LITE_EXCLUSIVE: Final = "Exclusive"
LITE_CLIENT_QUOTA: Final = "lite.sub.client.quota"
LITE_CLIENT_QUOTA_DEFAULT: Final = 2000
"""Source of these names: SubscriptionGroupAttributes of 5.5.0."""


class Group(Body, frozen=True, kw_only=True):
    """Settings of a consumer group. Source: SubscriptionGroupConfig."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int = 1
    retry_max_times: Int = 16
    group_retry_policy: dict[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: Long = 0
    which_broker_when_consume_slowly: Long = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int = 0
    consume_timeout_minute: Int = 15
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def priority_factor(self) -> int:
        """Percentage of pops from a topic of type PRIORITY that begin with the highest priority."""
        value = self.attributes.get(PRIORITY_FACTOR, "")
        return int(value) if value.isascii() and value.isdecimal() else PRIORITY_FACTOR_MAX

    @property
    def lite_bind_topic(self) -> str:
        """The topic whose lite topics the group reads; empty: it reads topics."""
        return self.attributes.get(LITE_BIND_TOPIC, "")

    @property
    def lite_exclusive(self) -> bool:
        """Whether a lite topic has one reader in the group: the one that subscribed last."""
        return self.attributes.get(LITE_SUB_MODEL, "") == LITE_EXCLUSIVE

    @property
    def lite_client_quota(self) -> int:
        """How many lite topics a client of the group may read; negative: as many as it likes."""
        try:
            return int(self.attributes.get(LITE_CLIENT_QUOTA, LITE_CLIENT_QUOTA_DEFAULT))
        except ValueError:
            return LITE_CLIENT_QUOTA_DEFAULT


class GroupTable(Body, frozen=True, kw_only=True):
    """Answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG, and the content of the broker's file. Source:
    SubscriptionGroupWrapper."""

    data_version: DataVersion = DataVersion(state_version=0)
    forbidden_table: dict[str, dict[str, Int]] = field(default_factory=dict)
    subscription_group_table: dict[str, Group] = field(default_factory=dict)
