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
from gantrymq.protocol.command import ONE_WAY_FLAG, Command, reader_of
from gantrymq.protocol.headers.send import SendMessage, SendMessageLong

STRICT_MAX_SINCE_VERSION: Final = 413
"""5.0.0: from this client version on a retry counts the delivery that failed, so the limit is exceeded by ``>``."""
_WITH_LONG_NAMES: Final = RequestCode.SEND_MESSAGE
_read_header: Final = reader_of(SendMessage)


class SendHandler:
    """Answers when the message is as safe as its sender asked for."""

    def __init__(self, sends: Sends, answers: SendAnswers) -> None:
        self._sends = sends
        self._answers = answers

    def send(self, session: ClientSession, command: Command) -> bytes | None:
        message: Submission = (
            command.header(SendMessageLong) if command.code == _WITH_LONG_NAMES else _read_header(command)
        )
        answered = None if command.flag & ONE_WAY_FLAG else partial(self._answer, session, command)
        self._sends.send(
            session, message, command.body, answered, counts_last_delivery=command.version >= STRICT_MAX_SINCE_VERSION
        )
        return None

    def _answer(self, session: ClientSession, command: Command, result: Stored | Refused) -> None:
        if isinstance(result, Refused):
            session.answer(command, rejected(command, result))
        else:
            session.answer(command, self._answers.stored(command, result))
