"""Which queue the messages of one key go to, so that they stay in order. No I/O.

Source: SelectMessageQueueByHash; docs/protocol.md#what-clients-send-and-when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.message.tags import java_hash

QueueSelector = Callable[[Sequence[MessageQueue], Message, str], MessageQueue]
"""Chooses a queue of the topic for a message and its key. The queues are in the same order in every call."""


def by_hash(queues: Sequence[MessageQueue], message: Message, key: str) -> MessageQueue:
    """The queue that Java's SelectMessageQueueByHash chooses for a String as key."""
    return queues[_remainder(java_hash(key), len(queues))]


def _remainder(value: int, divisor: int) -> int:
    # Java's % keeps the sign of the dividend; its selector then takes the absolute value.
    return abs(value) % divisor
