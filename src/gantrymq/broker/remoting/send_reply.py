"""SEND_REPLY_MESSAGE (324) and SEND_REPLY_MESSAGE_V2 (325). Source: docs/protocol.md#request-and-reply."""

from __future__ import annotations

from functools import partial

from gantrymq.broker.operations.reply import Handed, Replies
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.broker.remoting.send_answers import SendAnswers
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.send import SendMessage, SendMessageLong


class SendReplyHandler:
    """Answers when the requester has answered."""

    def __init__(self, replies: Replies, answers: SendAnswers) -> None:
        self._replies = replies
        self._answers = answers

    def send_reply(self, session: ClientSession, command: Command) -> None:
        long_names = command.code == RequestCode.SEND_REPLY_MESSAGE
        header = command.header(SendMessageLong) if long_names else command.header(SendMessage)
        self._replies.reply(session, header, command.body, partial(self._answer, session, command))

    def _answer(self, session: ClientSession, command: Command, result: Handed | Refused) -> None:
        if command.is_one_way:
            return
        if isinstance(result, Refused):
            session.answer(command, rejected(command, result))
        elif result.stored is None:
            session.answer(command, self._answers.not_stored(command, result.queue_id))
        else:
            session.answer(command, self._answers.stored(command, result.stored))
