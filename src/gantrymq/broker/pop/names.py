"""Topics and groups of POP. Source: PopAckConstants, KeyBuilder."""

from __future__ import annotations

from typing import Final

from gantrymq.message.receipt_handle import NORMAL, RETRY, RETRY_V2
from gantrymq.message.system_topics import RETRY_PREFIX, REVIVE_PREFIX
from gantrymq.message.system_topics import pop_retry_topic as pop_retry_topic

REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
"""Its offset on a revive queue: the last record that is not needed any more (not the next, as for other groups)."""
APPLIED_GROUP: Final = "CID_RMQ_SYS_REVIVE_APPLIED"
"""Ours: the last record of a revive queue whose check point the consumer offsets in the same file know about."""


def revive_topic(cluster: str) -> str:
    return REVIVE_PREFIX + cluster


def kind_of(topic: str) -> str:
    """What a receipt handle says about the topic."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY


def real_topic(topic: str, group: str, kind: str) -> str | None:
    """The topic a message of ``kind`` lies in; None for an unknown kind."""
    if kind == NORMAL:
        return topic
    return pop_retry_topic(topic, group, v2=kind == RETRY_V2) if kind in (RETRY, RETRY_V2) else None
