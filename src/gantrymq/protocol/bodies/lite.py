"""Subscriptions of lite topics. Source: LiteSubscriptionCtlRequestBody, LiteSubscriptionDTO, OffsetOption of 5.5."""

from __future__ import annotations

import enum

from msgspec import field

from gantrymq.message.numbers import Long
from gantrymq.protocol.body import Body


class LiteAction(enum.Enum):
    """Source: LiteSubscriptionAction."""

    PARTIAL_ADD = "PARTIAL_ADD"
    PARTIAL_REMOVE = "PARTIAL_REMOVE"
    COMPLETE_ADD = "COMPLETE_ADD"
    COMPLETE_REMOVE = "COMPLETE_REMOVE"


class OffsetOption(Body, frozen=True, kw_only=True):
    """Where a group begins in a lite topic."""

    type: str = "POLICY"
    """``OFFSET``, ``TAIL_N``, ``TIMESTAMP``, or ``POLICY``."""
    value: Long = 0
    """Of a policy: 0 the last offset, 1 the first message, 2 behind the last one."""


class LiteSubscriptionItem(Body, frozen=True, kw_only=True):
    """What one client says."""

    action: LiteAction
    client_id: str
    group: str
    topic: str
    lite_topic_set: list[str] = field(default_factory=list)
    offset_option: OffsetOption | None = None
    version: Long = 0


class LiteSubscriptions(Body, frozen=True, kw_only=True):
    """Request body of LITE_SUBSCRIPTION_CTL."""

    subscription_set: list[LiteSubscriptionItem] = field(default_factory=list)
