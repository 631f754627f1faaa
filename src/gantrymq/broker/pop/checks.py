"""The checks that POP_MESSAGE, PEEK_MESSAGE and NOTIFICATION share, in Apache's order."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.topics import Topics
from gantrymq.message import system_topics
from gantrymq.protocol.files.topics import PERM_READ, TopicConfig

MIN_QUEUE: Final = -1


class PopChecks:
    """Every method raises Refused."""

    def __init__(self, config: LiveConfig, topics: Topics, groups: Groups) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups

    def may_read(self, topic_name: str, queue_id: int, group_name: str) -> None:
        """Whether the group may pop, peek at or wait for a queue of the topic. ``queue_id``: -1 for any."""
        if not self._config.identity.broker_permission & PERM_READ:
            raise Refused(
                Refusal.NOT_PERMITTED, f"the broker[{self._config.network.broker_ip1}] pop message is forbidden"
            )
        topic = self.topic(topic_name)
        if not topic.perm & PERM_READ or topic_name in system_topics.TRANSACTION_TOPICS:
            raise Refused(Refusal.NOT_PERMITTED, f"the topic[{topic_name}] peeking message is forbidden")
        if not MIN_QUEUE <= queue_id < topic.read_queue_nums:
            raise Refused(Refusal.PARAMETER_INVALID, _illegal_queue(topic, queue_id))
        group = self._groups.find(group_name)
        if group is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"subscription group [{group_name}] does not exist")
        if self._groups.is_forbidden(group_name, topic_name):
            raise Refused(
                Refusal.NOT_PERMITTED, f"the consumer group[{group_name}] is forbidden for topic[{topic_name}]"
            )
        if not group.consume_enable:
            raise Refused(Refusal.NOT_PERMITTED, f"subscription group no permission, {group_name}")

    def topic(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(Refusal.TOPIC_UNKNOWN, f"topic[{name}] not exist, apply first please!")
        return topic

    def queue(self, topic_name: str, queue_id: int) -> None:
        """Of an acknowledgement: it names one queue."""
        topic = self.topic(topic_name)
        if not 0 <= queue_id < topic.read_queue_nums:
            raise Refused(Refusal.MESSAGE_ILLEGAL, _illegal_queue(topic, queue_id))


def _illegal_queue(topic: TopicConfig, queue_id: int) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{topic.topic_name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}]"
    )
