"""The types of messages, and of the topics that are made for them. Source: TopicMessageType.

A stored message is of the type with which it was sent: also the copy of a delayed message that is delivered, and the
message that a commit makes of a half message.
"""

from __future__ import annotations

from typing import Final

from gantrymq.message import properties
from gantrymq.message.system_topics import HALF, SCHEDULE, TIMER

NORMAL: Final = 0
FIFO: Final = 1
DELAY: Final = 2
TRANSACTION: Final = 3
PRIORITY: Final = 4
LITE: Final = 5
NAMES: Final = ("normal", "fifo", "delay", "transaction", "priority", "lite")
"""By their numbers, as metrics have them."""
TOPIC_TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED", "UNSPECIFIED")
"""What the attribute ``message.type`` of a topic may say."""
TYPE_PRIORITY: Final = "PRIORITY"
TYPE_LITE: Final = "LITE"

_OF_SYSTEM: Final = {HALF: TRANSACTION, SCHEDULE: DELAY, TIMER: DELAY}
_ORDERED: Final = f"{properties.SHARDING_KEY}\x01"
_WITH_PRIORITY: Final = f"{properties.PRIORITY}\x01"
_TO_LITE_TOPIC: Final = f"{properties.LITE_TOPIC}\x01"


def type_in(topic: str) -> int:
    """The type of all messages of a system topic; NORMAL for a topic whose messages can be of any type."""
    return _OF_SYSTEM.get(topic, NORMAL)


def plain_type(properties_text: str) -> int:
    """FIFO for a message with a sharding key (a *message group* of gRPC), PRIORITY for one with a priority, LITE for
    one to a lite topic, else NORMAL. Called for every message."""
    if _ORDERED in properties_text:
        return FIFO
    if _WITH_PRIORITY in properties_text:
        return PRIORITY
    return LITE if _TO_LITE_TOPIC in properties_text else NORMAL
