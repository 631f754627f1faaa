"""Lite topics. Source: PopLiteMessageRequestHeader and its neighbours of 5.5; docs/protocol.md#lite-topics."""

from __future__ import annotations

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.command import Header


class PopLiteMessage(Header, frozen=True, kw_only=True):
    """POP_LITE_MESSAGE: messages of the lite topics that the client has subscribed to."""

    client_id: str
    consumer_group: str
    topic: str
    """The topic of type LITE."""
    max_msg_num: Int
    invisible_time: Long
    """ms"""
    poll_time: Long
    """ms from ``born_time`` that the request may be held."""
    born_time: Long
    """ms since 1970 by the client's clock; 0: not known."""
    attempt_id: str | None = None
    bname: str | None = None


class PopLiteMessageAnswer(Header, frozen=True, kw_only=True):
    """Answer to POP_LITE_MESSAGE, found or not."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None
    """Of each message, how often it was delivered before."""


class NotifyUnsubscribeLite(Header, frozen=True, kw_only=True):
    """NOTIFY_UNSUBSCRIBE_LITE: another client of the group has the lite topic now."""

    lite_topic: str
    consumer_group: str
    client_id: str
