"""SEND_MESSAGE (10) and SEND_MESSAGE_V2 (310). Source: SendMessageProcessor of 5.5.0; docs/protocol.md#sending."""

from __future__ import annotations

from functools import partial
from typing import Final

from gantrymq.broker.operations.send import Sends
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.broker.remoting.send_answers import SendAnswers
from gantrymq.broker.submission import Stored, Submission
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import ONE_WAY_FLAG, Command
from gantrymq.protocol.headers.send import SendMessage, SendMessageLong

STRICT_MAX_SINCE_VERSION: Final = 413
"""5.0.0: from this client version on a retry counts the delivery that failed, so the limit is exceeded by ``>``."""


class SendHandler:
    """Answers when the message is as safe as its sender asked for."""

    def __init__(self, sends: Sends, answers: SendAnswers) -> None:
        self._send = sends.send
        self._stored = answers.stored

    def send(self, session: ClientSession, command: Command) -> bytes | None:
        ext = command.ext
        message: Submission = ext if isinstance(ext, SendMessage) else _header_of(command)
        answered = None if command.flag & ONE_WAY_FLAG else partial(self._answer, session, command)
        self._send(
            session, message, command.body, answered, counts_last_delivery=command.version >= STRICT_MAX_SINCE_VERSION
        )
        return None

    def _answer(self, session: ClientSession, command: Command, result: Stored | Refused) -> None:
        if isinstance(result, Refused):
            session.send(rejected(command, result))
        else:
            session.send(self._stored(command, result))


def _header_of(command: Command) -> Submission:
    if command.code == RequestCode.SEND_MESSAGE:
        return command.header(SendMessageLong)
    return command.header(SendMessage)
