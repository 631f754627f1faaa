"""The reasons why an operation was refused. They are the same for every protocol, which translates them."""

from __future__ import annotations

import enum

from gantrymq.errors import GantryError


class Refusal(enum.Enum):
    """A reason, with the sentence that describes it."""

    MESSAGE_ILLEGAL = "The message breaks a rule: its topic, size, properties or type."
    PARAMETER_INVALID = "An argument of the request has a value that cannot be used."
    NOT_PERMITTED = "A setting of the broker, the topic or the group forbids it."
    TOPIC_UNKNOWN = "The broker has no such topic."
    GROUP_UNKNOWN = "The broker has no such consumer group."
    MESSAGE_UNKNOWN = "The broker has no such message."
    NOT_FOUND = "Nothing matches the question."
    CONFLICT = "It contradicts what was decided before; the earlier decision stays."
    SUBSCRIPTION_UNKNOWN = "The group has no subscription for the topic; a heartbeat of a member brings it."
    SUBSCRIPTION_OUTDATED = "The client has a newer subscription than the broker; its next heartbeat brings it."
    SELECTOR_INVALID = "The SQL92 expression or the tags of a subscription cannot be read."
    SELECTOR_UNKNOWN = "The broker does not know the SQL92 expression of the group; its expression may be invalid."
    SELECTOR_OUTDATED = "The client has a newer SQL92 expression than the broker; its next heartbeat brings it."
    CONSUMER_OFFLINE = "The member of the consumer group that is asked for is not connected."
    CONSUMER_SILENT = "The member of the consumer group did not answer in time."
    ANSWERS_UNREAD = "The client has not read the answers to earlier requests."
    WAIT_OVER = "Nothing arrived for as long as the client was willing to wait."
    BUSY = "Too many bytes wait for the disk; try again in a while."
    UNAVAILABLE = "The broker takes no writes at the moment, or it is shutting down."
    SWITCHED_OFF = "A setting of the broker switches off what the request needs."
    READ_ONLY = "The broker takes no writes now: it is a replica, or a primary that waits for its replica."
    LITE_TOPIC_ILLEGAL = "The name of a lite topic breaks a rule."
    LITE_TOPICS_EXCEEDED = "The broker has so many lite topics that it makes no further one."
    LITE_SUBSCRIPTIONS_EXCEEDED = "The client, or all clients together, would read too many lite topics."
    FAILED = "The operation failed; the sentence of the refusal says why."


class Refused(GantryError):
    """An operation was refused; nothing was done. ``remark`` says what was wrong and what to do."""

    def __init__(self, reason: Refusal, remark: str) -> None:
        self.reason = reason
        self.remark = remark
        super().__init__(remark or reason.value)
