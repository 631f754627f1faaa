"""The results of the client's calls. Values only."""

from __future__ import annotations

import enum

import msgspec

from gantrymq.errors import GantryError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.message.send_status import SendStatus as SendStatus
from gantrymq.message.transaction import LocalTransactionState


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message was stored."""

    status: SendStatus
    message_id: str
    """The message's UNIQ_KEY; those of a batch joined by commas."""
    offset_message_id: str
    """Where the broker put it: address and log offset in hexadecimal digits."""
    queue: MessageQueue
    queue_offset: QueueOffset
    """Position in ``queue``; of a half message the position in the half queue."""
    transaction_id: str | None = None
    region: str = "DefaultRegion"
    recall_handle: str | None = None
    """Withdraws a message with a delivery time; see ``Producer.recall``. None for other messages."""


class TransactionSendResult(SendResult, frozen=True, kw_only=True):
    """The result of a message that was sent in a transaction."""

    state: LocalTransactionState
    """What the listener answered; UNKNOWN when it failed, ROLLBACK when it was not called."""
    decided: bool
    """Whether the broker confirmed a commit or a rollback. If not, a check-back will settle the transaction: the state
    is UNKNOWN, or the broker could not be reached (then ``decision_error`` says why)."""
    listener_error: BaseException | None = None
    """What the listener raised; then the state is UNKNOWN."""
    decision_error: GantryError | None = None
    """Why the decision could not be delivered."""


class PullStatus(enum.Enum):
    """The status of a pull. Source: PullStatus."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    """There is no message at the offset yet."""
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    """There were messages, but none with a subscribed tag; continue at ``next_offset``."""
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"
    """The offset lies outside of ``min_offset .. max_offset``; ``next_offset`` is the nearest one inside."""


class PullResult(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one queue, in order."""

    status: PullStatus
    messages: list[MessageView]
    next_offset: QueueOffset
    """The offset at which the next pull continues."""
    min_offset: QueueOffset
    max_offset: QueueOffset
    """The offset after the last message of the queue, at the time of the broker's answer."""


class RawPull(msgspec.Struct, frozen=True, kw_only=True):
    """Like PullResult, with the records as the broker sent them, one after the other."""

    status: PullStatus
    data: bytes
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset


class ConsumeStatus(enum.Enum):
    """What a push consumer's listener answers. Source: ConsumeConcurrentlyStatus, ConsumeOrderlyStatus."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    """Send the messages back; they are delivered again later, and go to the dead-letter topic in the end. An orderly
    consumer treats it as SUSPEND_CURRENT_QUEUE_A_MOMENT."""
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    """Deliver these messages again after ``suspend_ms``, and no other message of their queue before. A consumer that is
    not orderly treats it as RECONSUME_LATER."""


class ReconsumeLater(msgspec.Struct, frozen=True, kw_only=True):
    """What a listener may return instead of RECONSUME_LATER, to choose when the messages are delivered again."""

    delay_level: int = 0
    """0: the broker decides (10 s, 30 s, 1 min ...); 1..18: this delay level; -1: to the dead letters at once."""
    suspend_ms: int | None = None
    """When consuming in order: how long to wait, a day at most; None: the consumer's ``suspend_ms``."""
