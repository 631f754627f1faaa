"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361) as frames. A found answer carries the bytes of the store unchanged.

Source: PullMessageProcessor; docs/protocol.md#pulling.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import Final

from gantrymq.broker.delivery.pull import Pulls
from gantrymq.broker.delivery.pull_values import InlineSubscription, PullRequest, PullResult, PullStatus
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.message.versions import VERSION
from gantrymq.protocol.bodies.route import MASTER_ID
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import LANGUAGE, Command, SerializeType, encode_response
from gantrymq.protocol.frame import before_body
from gantrymq.protocol.headers.pull import PullMessage, PullMessageAnswer
from gantrymq.remoting.session import LARGE_ANSWER_BYTES

COMMIT_FLAG: Final = 1
SUSPEND_FLAG: Final = 2
SUBSCRIPTION_FLAG: Final = 4

RESPONSE_CODES: Final[dict[PullStatus, ResponseCode]] = {
    PullStatus.FOUND: ResponseCode.SUCCESS,
    PullStatus.NO_NEW_MESSAGE: ResponseCode.PULL_NOT_FOUND,
    PullStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    PullStatus.OFFSET_ILLEGAL: ResponseCode.PULL_OFFSET_MOVED,
}

SUGGESTED_BROKER_ID: Final = MASTER_ID
"""From which broker of this name a client shall pull next. The one place that says it, for both forms of an answer."""

_FOUND: Final = PullStatus.FOUND
_FOUND_CODE: Final = ResponseCode.SUCCESS
_PREFIX: Final = Struct(">II")
_TEMPLATE: Final = (
    b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%d","groupSysFlag":"0","nextBeginOffset":"%d","maxOffset":"%d",'
    b'"minOffset":"%d","topicSysFlag":"0"},"flag":1,"language":"'
    + LANGUAGE.encode()
    + b'","opaque":%d,"remark":"%b","serializeTypeCurrentRPC":"JSON","version":'
    + str(VERSION).encode()
    + b"}"
)


class PullHandler:
    """Handles PULL_MESSAGE and LITE_PULL_MESSAGE."""

    def __init__(self, pulls: Pulls) -> None:
        self._pulls = pulls

    def pull(self, session: ClientSession, command: Command) -> bytes | None:
        request = _request(command.header(PullMessage))
        result = self._pulls.pull(session, request, partial(_answer_later, session, command))
        if result is None:
            return None
        if len(result.records) > LARGE_ANSWER_BYTES:
            _answer(session, command, result, held=False)
            return None
        return _beginning(command, result) + result.records


def _request(header: PullMessage) -> PullRequest:
    flags = header.sys_flag
    inline = InlineSubscription(header.subscription, header.expression_type) if flags & SUBSCRIPTION_FLAG else None
    return PullRequest(
        header.consumer_group, header.topic, header.queue_id, header.queue_offset, header.max_msg_nums,
        header.max_msg_bytes or 0, header.commit_offset if flags & COMMIT_FLAG and header.commit_offset >= 0 else None,
        header.suspend_timeout_millis if flags & SUSPEND_FLAG else None, inline, header.sub_version,
    )  # fmt: skip


def _answer_later(session: ClientSession, command: Command, result: PullResult | Refused) -> None:
    if isinstance(result, Refused):
        session.answer(command, rejected(command, result), held=True)
    else:
        _answer(session, command, result, held=True)


def _answer(session: ClientSession, command: Command, result: PullResult, *, held: bool) -> None:
    session.answer(command, _beginning(command, result), result.records, held=held)


def _beginning(command: Command, result: PullResult) -> bytes:
    """The frame up to the records."""
    size = len(result.records)
    code = _FOUND_CODE if result.status is _FOUND else RESPONSE_CODES[result.status]
    if command.serialize is SerializeType.JSON:
        header = _TEMPLATE % (
            code, SUGGESTED_BROKER_ID, result.next_offset, result.max_offset, result.min_offset, command.opaque,
            result.reason.encode(),
        )  # fmt: skip
        return _PREFIX.pack(4 + len(header) + size, len(header)) + header
    answer = PullMessageAnswer(
        suggest_which_broker_id=SUGGESTED_BROKER_ID, next_begin_offset=result.next_offset, min_offset=result.min_offset,
        max_offset=result.max_offset, topic_sys_flag=0, group_sys_flag=0,
    )  # fmt: skip
    return before_body(encode_response(command, code, answer, remark=result.reason), size)
