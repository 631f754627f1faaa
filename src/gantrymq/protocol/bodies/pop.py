"""Bodies of POP: acknowledgements of several messages, and which member consumes which queue in which mode.

Source: BatchAckMessageRequestBody, QueryAssignmentRequestBody and their neighbours.
"""

from __future__ import annotations

from msgspec import field

from gantrymq.message.numbers import Int, Long
from gantrymq.message.pop import Assignment, AssignmentQuery, BatchAck
from gantrymq.protocol.body import Body


class BatchAckItem(BatchAck, frozen=True, kw_only=True):
    """An item of BATCH_ACK_MESSAGE, whose names are single letters. Its bit set is Base64."""

    consumer_group: str = field(name="c")
    topic: str = field(name="t")
    retry: str = field(name="r", default="0")
    start_offset: Long = field(name="so")
    queue_id: Int = field(name="q")
    revive_queue_id: Int = field(name="rq")
    pop_time: Long = field(name="pt")
    invisible_time: Long = field(name="it")
    bit_set: bytes = field(name="b", default=b"")


class BatchAckRequest(Body, frozen=True, kw_only=True):
    """Request body of BATCH_ACK_MESSAGE."""

    broker_name: str | None = None
    acks: list[BatchAckItem] = field(default_factory=list)


class HeldItem(Body, frozen=True, kw_only=True):
    """A delivery that a proxy has prolonged for its client."""

    group: str
    topic: str
    """The one that the message lies in."""
    holder: str
    """The client."""
    first_pop: int
    """ms since 1970 of the pop whose receipt handle the client has."""
    handle: str
    """The receipt handle that counts now."""


class HeldList(Body, frozen=True, kw_only=True):
    """Answer to LIST_HELD."""

    held: list[HeldItem] = field(default_factory=list)


class QueryAssignment(Body, AssignmentQuery, frozen=True, kw_only=True):
    """Request body of QUERY_ASSIGNMENT."""


class QueryAssignmentAnswer(Body, frozen=True, kw_only=True):
    """Answer to QUERY_ASSIGNMENT. None: the broker cannot tell, and the client keeps its queues."""

    message_queue_assignments: list[Assignment] | None = None
