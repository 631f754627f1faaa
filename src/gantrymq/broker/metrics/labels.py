"""Values of labels as Apache's broker writes them."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.registries.topics import Topics
from gantrymq.message import system_topics

_SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
_SYSTEM_GROUPS: Final = frozenset({system_topics.TOOLS_CONSUMER, system_topics.CLIENT_INNER_PRODUCER})


def flag(value: bool) -> str:
    return "true" if value else "false"


def is_system_group(group: str) -> bool:
    return group.startswith(_SYSTEM_GROUP_PREFIX) or group in _SYSTEM_GROUPS


def topic_and_group(topics: Topics, topic: str, group: str) -> tuple[str, str, str, str]:
    """The labels ``topic``, ``consumer_group``, ``is_retry``, ``is_system``."""
    retry = topic.startswith(system_topics.RETRY_PREFIX)
    return topic, group, flag(retry), flag(topics.is_system(topic) or is_system_group(group))
