"""Translates refusals to the remoting protocol: a response code and a remark."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import GantryError
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response

RESPONSE_CODES: Final[dict[Refusal, ResponseCode]] = {
    Refusal.LITE_TOPIC_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    Refusal.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    Refusal.PARAMETER_INVALID: ResponseCode.INVALID_PARAMETER,
    Refusal.NOT_PERMITTED: ResponseCode.NO_PERMISSION,
    Refusal.TOPIC_UNKNOWN: ResponseCode.TOPIC_NOT_EXIST,
    Refusal.GROUP_UNKNOWN: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    Refusal.MESSAGE_UNKNOWN: ResponseCode.NO_MESSAGE,
    Refusal.NOT_FOUND: ResponseCode.QUERY_NOT_FOUND,
    Refusal.CONFLICT: ResponseCode.ILLEGAL_OPERATION,
    Refusal.SUBSCRIPTION_UNKNOWN: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    Refusal.SUBSCRIPTION_OUTDATED: ResponseCode.SUBSCRIPTION_NOT_LATEST,
    Refusal.SELECTOR_INVALID: ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    Refusal.SELECTOR_UNKNOWN: ResponseCode.FILTER_DATA_NOT_EXIST,
    Refusal.SELECTOR_OUTDATED: ResponseCode.FILTER_DATA_NOT_LATEST,
    Refusal.CONSUMER_OFFLINE: ResponseCode.CONSUMER_NOT_ONLINE,
    Refusal.CONSUMER_SILENT: ResponseCode.CONSUME_MSG_TIMEOUT,
    Refusal.ANSWERS_UNREAD: ResponseCode.FLOW_CONTROL,
    Refusal.WAIT_OVER: ResponseCode.POLLING_TIMEOUT,
    Refusal.BUSY: ResponseCode.SYSTEM_BUSY,
    Refusal.UNAVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    Refusal.SWITCHED_OFF: ResponseCode.SYSTEM_ERROR,
    Refusal.READ_ONLY: ResponseCode.SERVICE_NOT_AVAILABLE,
    Refusal.LITE_TOPICS_EXCEEDED: ResponseCode.LMQ_QUOTA_EXCEEDED,
    Refusal.LITE_SUBSCRIPTIONS_EXCEEDED: ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
    Refusal.FAILED: ResponseCode.SYSTEM_ERROR,
}


def rejection(error: GantryError) -> tuple[int, str | None] | None:
    """Response code and remark for a refusal; None for any other error."""
    if isinstance(error, Refused):
        return RESPONSE_CODES[error.reason], error.remark
    return None


def rejected(command: Command, error: Refused) -> bytes:
    """The answer to ``command`` when the operation it asked for was refused."""
    return encode_response(command, RESPONSE_CODES[error.reason], remark=error.remark)
