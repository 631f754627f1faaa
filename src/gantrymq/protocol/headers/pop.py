"""Popping, acknowledging, waiting. Source: PopMessageRequestHeader and its neighbours of 5.5; docs/protocol.md#pop."""

from __future__ import annotations

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.command import Header


class PopMessage(Header, frozen=True, kw_only=True):
    """POP_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: Int
    """-1: any queue."""
    max_msg_nums: Int
    invisible_time: Long
    """ms"""
    poll_time: Long
    """ms from ``born_time`` that the request may be held."""
    born_time: Long
    """ms since 1970 by the client's clock; 0: not known."""
    init_mode: Int
    """Where a group begins in a queue that it has never read: 0 at the end, 1 at the start."""
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None
    bname: str | None = None


class PopMessageAnswer(Header, frozen=True, kw_only=True):
    """Answer to POP_MESSAGE and PEEK_MESSAGE, found or not."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int
    rest_num: Long
    """How many messages of the examined queues are still to be popped."""
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessage(Header, frozen=True, kw_only=True):
    """ACK_MESSAGE."""

    consumer_group: str
    topic: str
    """The topic in which the message is stored: the retry topic for a retried message."""
    queue_id: Int
    extra_info: str
    """The receipt handle (``message.receipt_handle``)."""
    offset: Long
    lite_topic: str | None = None
    bname: str | None = None
    in_hand: bool | None = None
    """True: a delivery that has ended is refused. Only GantryMQ has it; Apache's brokers pass over such a delivery."""


class ChangeInvisibleTime(Header, frozen=True, kw_only=True):
    """CHANGE_MESSAGE_INVISIBLETIME."""

    consumer_group: str
    topic: str
    queue_id: Int
    extra_info: str
    offset: Long
    invisible_time: Long
    """ms from now."""
    lite_topic: str | None = None
    suspend: bool | None = None
    """True: the delivery does not count as an attempt."""
    bname: str | None = None
    holder: str | None = None
    """The client for which a proxy does this by itself. Only GantryMQ has this and the next one."""
    first_pop: Long | None = None
    """ms since 1970 of the pop whose receipt handle that client has."""


class ChangeInvisibleTimeAnswer(Header, frozen=True, kw_only=True):
    """The parts of the new receipt handle."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int


class ListHeld(Header, frozen=True, kw_only=True):
    """LIST_HELD; answered with a HeldList body."""

    within_ms: Int
    """Deliveries that end within so many ms."""


class PeekMessage(Header, frozen=True, kw_only=True):
    """PEEK_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: Int
    max_msg_nums: Int
    bname: str | None = None


class Notification(Header, frozen=True, kw_only=True):
    """NOTIFICATION: asks whether there is a message to pop, now or within ``poll_time`` ms."""

    consumer_group: str
    topic: str
    queue_id: Int
    poll_time: Long
    born_time: Long
    order: bool | None = None
    attempt_id: str | None = None
    bname: str | None = None


class NotificationAnswer(Header, frozen=True, kw_only=True):
    """Answer to NOTIFICATION."""

    has_msg: bool
    polling_full: bool = False


class WaitingPops(Header, frozen=True, kw_only=True):
    """POLLING_INFO: asks how many pops of a group are waiting."""

    consumer_group: str
    topic: str
    queue_id: Int
    bname: str | None = None


class WaitingPopsAnswer(Header, frozen=True, kw_only=True):
    """Answer to POLLING_INFO."""

    polling_num: Int
