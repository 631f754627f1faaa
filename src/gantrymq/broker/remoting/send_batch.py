"""SEND_BATCH_MESSAGE (320). Source: SendMessageProcessor.sendBatchMessage; docs/protocol.md#batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gantrymq.broker.operations.send_batch import BatchSends, BatchStored
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.broker.remoting.send_answers import SendAnswers
from gantrymq.errors import MessageIllegal
from gantrymq.message.sizes import MAX_BATCH_MESSAGES
from gantrymq.message.submission import BatchItem
from gantrymq.protocol.batch import split_batch
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.send import SendMessage


class SendBatchHandler:
    """A batch is answered once."""

    def __init__(self, sends: BatchSends, answers: SendAnswers) -> None:
        self._sends = sends
        self._answers = answers

    def send_batch(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(SendMessage)
        answered = None if command.is_one_way else partial(self._answer, session, command)
        self._sends.send(session, header, len(command.body), _items(command.body), answered)
        return None

    def _answer(self, session: ClientSession, command: Command, result: BatchStored | Refused) -> None:
        if isinstance(result, Refused):
            session.answer(command, rejected(command, result))
        else:
            session.answer(command, self._answers.batch_stored(command, result))


def _items(body: bytes) -> Iterator[BatchItem]:
    """Read when somebody asks for the first: not of a batch that is refused for its size."""
    try:
        yield from split_batch(body, MAX_BATCH_MESSAGES)
    except MessageIllegal as error:
        raise Refused(Refusal.MESSAGE_ILLEGAL, str(error)) from error
