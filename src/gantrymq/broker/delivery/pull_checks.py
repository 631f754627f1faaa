"""Which client may pull from which queue, and which messages a pull selects. The checks come in the order of Apache's
broker.

Source: PullMessageProcessor; docs/protocol.md#pulling.
"""

from __future__ import annotations

from typing import Final

from gantrymq.broker.delivery.pull_values import PullRequest
from gantrymq.broker.filtering.selection import Selection
from gantrymq.broker.filtering.subscriptions import require_property_filter, selection_of
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups
from gantrymq.broker.registries.filters import ConsumerFilters
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.topics import Topics
from gantrymq.message import system_topics
from gantrymq.message.heartbeat import MessageModel
from gantrymq.protocol.files.topics import PERM_READ

TRANSACTION_READERS: Final = frozenset({system_topics.TOOLS_CONSUMER, system_topics.TRANSACTION_GROUP})
"""Groups that may read the topics of undecided messages."""


class PullChecks:
    """Every method raises Refused."""

    def __init__(
        self,
        config: LiveConfig,
        topics: Topics,
        groups: Groups,
        consumers: ConsumerGroups,
        filters: ConsumerFilters,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._filters = filters

    def may_read(self, request: PullRequest) -> None:
        """Whether the group may pull from the queue."""
        if not self._config.identity.broker_permission & PERM_READ:
            raise Refused(
                Refusal.NOT_PERMITTED, f"the broker[{self._config.network.broker_ip1}] pulling message is forbidden"
            )
        self._check_group(request.group)
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refused(Refusal.TOPIC_UNKNOWN, f"topic[{request.topic}] not exist, apply first please!")
        if self._groups.is_forbidden(request.group, request.topic):
            raise Refused(
                Refusal.NOT_PERMITTED,
                f"the consumer group[{request.group}] is forbidden for topic[{request.topic}]",
            )
        if not topic.perm & PERM_READ:
            raise Refused(Refusal.NOT_PERMITTED, f"the topic[{request.topic}] pulling message is forbidden")
        if request.topic in system_topics.TRANSACTION_TOPICS and request.group not in TRANSACTION_READERS:
            raise Refused(
                Refusal.NOT_PERMITTED,
                f"the topic[{request.topic}] holds messages of undecided transactions; "
                f"only {system_topics.TOOLS_CONSUMER} may read it",
            )
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{request.group}]",
            )

    def _check_group(self, name: str) -> None:
        group = self._groups.find(name)
        if group is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"subscription group [{name}] does not exist")
        if not group.consume_enable:
            raise Refused(Refusal.NOT_PERMITTED, f"subscription group no permission, {name}")

    def selection(self, request: PullRequest) -> Selection:
        """Which messages the pull selects."""
        inline = request.subscription
        if inline is not None:
            return selection_of(self._config, inline.expression, inline.expression_type)
        return self._selection_of_group(request)

    def _selection_of_group(self, request: PullRequest) -> Selection:
        online = self._consumers.get(request.group)
        if online is None:
            raise Refused(Refusal.SUBSCRIPTION_UNKNOWN, "the consumer's group info not exist")
        if online.message_model is MessageModel.BROADCASTING:
            settings = self._groups.get(request.group)
            if settings is not None and not settings.consume_broadcast_enable:
                raise Refused(
                    Refusal.NOT_PERMITTED,
                    f"the consumer group[{request.group}] can not consume by broadcast way",
                )
        subscription = online.subscriptions.get(request.topic)
        if subscription is None:
            raise Refused(Refusal.SUBSCRIPTION_UNKNOWN, "the consumer's subscription not exist")
        if subscription.data.sub_version < request.subscription_version:
            raise Refused(Refusal.SUBSCRIPTION_OUTDATED, "the consumer's subscription not latest")
        if not subscription.is_tag:
            return self._selection_by_properties(request, subscription.data.expression_type)
        return subscription.selection

    def _selection_by_properties(self, request: PullRequest, expression_type: str | None) -> Selection:
        """Of a group whose heartbeat subscribes by an expression."""
        known = self._filters.get(request.topic, request.group)
        if known is None:
            raise Refused(
                Refusal.SELECTOR_UNKNOWN,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        if known[0].client_version < request.subscription_version:
            raise Refused(Refusal.SELECTOR_OUTDATED, "the consumer's consumer filter data not latest")
        require_property_filter(self._config, expression_type)
        return known[1]
