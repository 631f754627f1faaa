"""Locks of queues for orderly consumption. Source: LockBatchRequestBody; docs/protocol.md#locks-of-queues."""

from __future__ import annotations

from msgspec import field

from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.body import Body


class LockBatch(Body, frozen=True, kw_only=True):
    """Request body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool | None = None
    ends_with_connection: bool | None = None
    """Ours: the client hands out no further message of the queues while it has no connection. Apache's brokers ignore
    it."""


class LockBatchAnswer(Body, frozen=True, kw_only=True):
    """The queues whose locks the client has now."""

    lock_ok_mq_set: list[MessageQueue] = field(name="lockOKMQSet", default_factory=list)
