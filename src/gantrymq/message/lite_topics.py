"""Lite topics: many small queues below one topic of type LITE, their *parent*.

A message to a lite topic lies in a queue of its parent, as every message, and takes a place in the queue of its lite
topic, too. That queue has the number 0 below a name that is made of both. Source: LiteUtil, MixAll, GrpcValidator of
5.5.0; docs/protocol.md#lite-topics.
"""

from __future__ import annotations

import re
from typing import Final

from gantrymq.errors import MessageIllegal
from gantrymq.message.arguments import shown

QUEUE_PREFIX: Final = "%LMQ%"
"""Of the names of all queues that are not those of a topic ("light message queues")."""
SEPARATOR: Final = "$"
LITE_PREFIX: Final = QUEUE_PREFIX + SEPARATOR
LITE_TOPIC_MAX: Final = 64
"""Characters. Source: ProxyConfig.maxLiteTopicSize."""
LITE_QUEUE: Final = 0
"""The number of a lite topic's only queue."""
_LEGAL: Final = re.compile("[A-Za-z0-9_-]+").fullmatch


def check_lite_topic(name: object) -> None:
    """Raise MessageIllegal, which says what is wrong with the name of a lite topic."""
    if not isinstance(name, str) or len(name) > LITE_TOPIC_MAX or _LEGAL(name) is None:
        raise MessageIllegal(
            f"lite_topic must have 1 to {LITE_TOPIC_MAX} letters, digits, '-' and '_', and not be {shown(name)}"
        )


def lite_queue(parent: str, lite_topic: str) -> str:
    """Under which name the queue of a lite topic lies."""
    return f"{LITE_PREFIX}{parent}{SEPARATOR}{lite_topic}"


def is_lite_queue(name: str) -> bool:
    """Whether it is the name of the queue of a lite topic, and not of a topic."""
    return name.startswith(LITE_PREFIX)


def parent_of(queue: str) -> str:
    """The parent of the lite topic whose queue this is."""
    return queue[len(LITE_PREFIX) :].partition(SEPARATOR)[0]


def lite_topic_of(queue: str) -> str:
    """The lite topic whose queue this is."""
    return queue[len(LITE_PREFIX) :].partition(SEPARATOR)[2]
