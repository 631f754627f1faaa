"""Positions of messages: the queue of a topic, the offset in the commit log, the offset in a queue."""

from __future__ import annotations

from typing import NewType

import msgspec

LogOffset = NewType("LogOffset", int)
"""Bytes from the start of a broker's commit log ("physical offset")."""

QueueOffset = NewType("QueueOffset", int)
"""Number of a message in its queue, from 0 ("logical offset")."""


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """One queue of a topic on one broker. Ordered as RocketMQ orders queues. Source: MessageQueue."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"
