"""Values of labels as Apache's broker writes them."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.registries.topics import Topics
from gantrymq.message import system_topics

_SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
_SYSTEM_GROUPS: Final = frozenset({system_topics.TOOLS_CONSUMER, system_topics.CLIENT_INNER_PRODUCER})


def flag(value: bool) -> str:
    return "true" if value else "false"


REMOTING: Final = "remoting"
"""The protocol of all members of groups."""
STORAGE_LABELS: Final = ("storage_type", "storage_medium")
STORAGE: Final = ("local", "disk")
"""Their values here. Source: DefaultStoreMetricsConstant."""


def is_system_group(group: str) -> bool:
    return group.startswith(_SYSTEM_GROUP_PREFIX) or group in _SYSTEM_GROUPS


BY_TOPIC_AND_GROUP: Final = ("topic", "consumer_group", "is_retry", "is_system")


def topic_and_group(topics: Topics, topic: str, group: str) -> tuple[str, str, str, str]:
    """The values of ``BY_TOPIC_AND_GROUP``."""
    retry = topic.startswith(system_topics.RETRY_PREFIX)
    return topic, group, flag(retry), flag(topics.is_system(topic) or is_system_group(group))
