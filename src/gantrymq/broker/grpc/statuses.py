"""Translates refusals and results to the status codes of the protocol. Source: ResponseBuilder, Code."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import GantryError
from gantrymq.grpc.definition_pb2 import Code, Status
from gantrymq.message.send_status import SendStatus

CODES: Final[dict[Refusal, Code]] = {
    Refusal.MESSAGE_ILLEGAL: Code.BAD_REQUEST,
    Refusal.PARAMETER_INVALID: Code.BAD_REQUEST,
    Refusal.NOT_PERMITTED: Code.FORBIDDEN,
    Refusal.TOPIC_UNKNOWN: Code.TOPIC_NOT_FOUND,
    Refusal.GROUP_UNKNOWN: Code.CONSUMER_GROUP_NOT_FOUND,
    Refusal.MESSAGE_UNKNOWN: Code.INVALID_RECEIPT_HANDLE,
    Refusal.NOT_FOUND: Code.NOT_FOUND,
    Refusal.CONFLICT: Code.INVALID_TRANSACTION_ID,
    Refusal.SUBSCRIPTION_UNKNOWN: Code.CONSUMER_GROUP_NOT_FOUND,
    Refusal.SUBSCRIPTION_OUTDATED: Code.PRECONDITION_FAILED,
    Refusal.SELECTOR_INVALID: Code.ILLEGAL_FILTER_EXPRESSION,
    Refusal.SELECTOR_UNKNOWN: Code.ILLEGAL_FILTER_EXPRESSION,
    Refusal.SELECTOR_OUTDATED: Code.PRECONDITION_FAILED,
    Refusal.CONSUMER_OFFLINE: Code.NOT_FOUND,
    Refusal.CONSUMER_SILENT: Code.REQUEST_TIMEOUT,
    Refusal.ANSWERS_UNREAD: Code.TOO_MANY_REQUESTS,
    Refusal.WAIT_OVER: Code.MESSAGE_NOT_FOUND,
    Refusal.BUSY: Code.TOO_MANY_REQUESTS,
    Refusal.SWITCHED_OFF: Code.UNSUPPORTED,
    Refusal.READ_ONLY: Code.FORBIDDEN,
    Refusal.LITE_TOPIC_ILLEGAL: Code.ILLEGAL_LITE_TOPIC,
    Refusal.LITE_TOPICS_EXCEEDED: Code.LITE_TOPIC_QUOTA_EXCEEDED,
    Refusal.LITE_SUBSCRIPTIONS_EXCEEDED: Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
    Refusal.UNAVAILABLE: Code.INTERNAL_ERROR,
    Refusal.FAILED: Code.INTERNAL_SERVER_ERROR,
}
OF_STORED: Final[dict[SendStatus, Code]] = {
    SendStatus.SEND_OK: Code.OK,
    SendStatus.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    SendStatus.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    SendStatus.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
}
"""The message is stored in each of these cases."""


class Rejected(GantryError):
    """A request is refused with a code of this protocol that says more than a ``Refusal``.

    It is not a ``Refused``: that class may be compiled, and such a class has no subclasses in Python.
    """

    def __init__(self, code: Code, remark: str) -> None:
        super().__init__(remark)
        self.code = code


REFUSED: Final = (Refused, Rejected)
"""Everything by which a call is refused."""


def ok() -> Status:
    return Status(code=Code.OK, message="OK")


def status_of(refused: Refused | Rejected) -> Status:
    code = refused.code if isinstance(refused, Rejected) else CODES[refused.reason]
    return Status(code=code, message=str(refused))


def together(each: list[Status]) -> Status:
    """The status of an answer with several results."""
    codes = {status.code for status in each}
    if len(codes) == 1:
        return each[0]
    return Status(code=Code.MULTIPLE_RESULTS, message="the entries have different results")
