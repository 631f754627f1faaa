"""What consumers ask and say when brokers share messages out to them. In JSON the fields have RocketMQ's names.

Source: MessageRequestMode, BatchAck, MessageQueueAssignment.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

from gantrymq.message.heartbeat import MessageModel
from gantrymq.message.queues import MessageQueue


class RequestMode(enum.StrEnum):
    """How a group reads a topic. Source: MessageRequestMode."""

    PULL = "PULL"
    POP = "POP"


class BatchAck(msgspec.Struct, frozen=True, kw_only=True):
    """Acknowledgements of messages of one check point."""

    consumer_group: str
    topic: str
    """The normal topic, also for a retried message."""
    retry: str = "0"
    """The kind of topic, as in a receipt handle: 0 normal, 1 retry, 2 retry in the newer naming."""
    start_offset: int
    queue_id: int
    revive_queue_id: int
    pop_time: int
    invisible_time: int
    bit_set: bytes = b""
    """Little-endian: distances from ``start_offset``."""

    def offsets(self) -> Iterator[int]:
        """The queue offsets that are acknowledged."""
        for place, byte in enumerate(self.bit_set):
            for bit in range(8):
                if byte >> bit & 1:
                    yield self.start_offset + 8 * place + bit


class AssignmentQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A member asks for its queues."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = "AVG"
    message_model: MessageModel = MessageModel.CLUSTERING


class Assignment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue and how to read it. In POP mode the queue id can be -1: any queue of the broker."""

    message_queue: MessageQueue
    mode: RequestMode = RequestMode.PULL
