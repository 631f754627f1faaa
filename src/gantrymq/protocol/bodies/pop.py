"""Bodies of POP: acknowledgements of several messages, and which member consumes which queue in which mode.

Source: BatchAckMessageRequestBody, QueryAssignmentRequestBody, SetMessageRequestModeRequestBody and their neighbours.
"""

from __future__ import annotations

import base64
import binascii
import enum
from collections.abc import Iterator

from msgspec import field

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.body import Body
from gantrymq.protocol.bodies.heartbeat import MessageModel
from gantrymq.protocol.numbers import Int, Long


class RequestMode(enum.StrEnum):
    """How a group reads a topic. Source: MessageRequestMode."""

    PULL = "PULL"
    POP = "POP"


class BatchAck(Body, frozen=True, kw_only=True):
    """Acknowledgements of messages of one check point."""

    consumer_group: str = field(name="c")
    topic: str = field(name="t")
    """The normal topic, also for a retried message."""
    retry: str = field(name="r", default="0")
    """0 normal, 1 retry, 2 retry in the newer naming."""
    start_offset: Long = field(name="so")
    queue_id: Int = field(name="q")
    revive_queue_id: Int = field(name="rq")
    pop_time: Long = field(name="pt")
    invisible_time: Long = field(name="it")
    bit_set: str = field(name="b", default="")
    """Base64 of a little-endian bit set: distances from ``start_offset``."""

    def offsets(self) -> Iterator[int]:
        """The queue offsets that are acknowledged. Raises RemoteProtocolError when the bit set is malformed."""
        try:
            bits = base64.b64decode(self.bit_set, validate=True)
        except (binascii.Error, ValueError) as error:
            raise RemoteProtocolError(f"the bit set of a batch of acknowledgements is malformed: {error}") from error
        for place, byte in enumerate(bits):
            for bit in range(8):
                if byte >> bit & 1:
                    yield self.start_offset + 8 * place + bit


class BatchAckRequest(Body, frozen=True, kw_only=True):
    """Request body of BATCH_ACK_MESSAGE."""

    broker_name: str | None = None
    acks: list[BatchAck] = field(default_factory=list)


class QueryAssignment(Body, frozen=True, kw_only=True):
    """Request body of QUERY_ASSIGNMENT."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = "AVG"
    message_model: MessageModel = MessageModel.CLUSTERING


class Assignment(Body, frozen=True, kw_only=True):
    """A queue and how to read it. In POP mode the queue id can be -1: any queue of the broker."""

    message_queue: MessageQueue
    mode: RequestMode = RequestMode.PULL


class QueryAssignmentAnswer(Body, frozen=True, kw_only=True):
    """Answer to QUERY_ASSIGNMENT. None: the broker cannot tell, and the client keeps its queues."""

    message_queue_assignments: list[Assignment] | None = None


class GroupRequestMode(Body, frozen=True, kw_only=True):
    """Request body of SET_MESSAGE_REQUEST_MODE, and an entry in the broker's file."""

    topic: str
    consumer_group: str
    mode: RequestMode = RequestMode.PULL
    pop_share_queue_num: Int = 0
    """How many further members share a member's queues; 0 or less: every member pops from every queue."""


class RequestModeTable(Body, frozen=True, kw_only=True):
    """Answer to GET_ALL_MESSAGE_REQUEST_MODE, and the content of the broker's file: modes by topic and group."""

    message_request_mode_map: dict[str, dict[str, GroupRequestMode]] = field(default_factory=dict)
