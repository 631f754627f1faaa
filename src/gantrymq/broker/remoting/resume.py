"""RESUME_CHECK_HALF_MESSAGE (323)."""

from __future__ import annotations

from gantrymq.broker.client import Operator
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.broker.transactions.resume import ResumeOperation
from gantrymq.message.transaction import OPERATOR_REMARK
from gantrymq.protocol.command import Command, success_of
from gantrymq.protocol.headers.tools import ResumeCheck
from gantrymq.protocol.message_ids import parse_offset_message_id


class ResumeHandler:
    """Translates requests 323. A remark is the note of the operator, also when it does not begin as our tools' do."""

    def __init__(self, operation: ResumeOperation) -> None:
        self._operation = operation

    def resume(self, session: ClientSession, command: Command) -> None:
        """Answered when the half message is durable."""
        log_offset = parse_offset_message_id(command.header(ResumeCheck).msg_id)[1]
        remark = command.remark

        def done(refused: Refused | None) -> None:
            session.answer(command, success_of(command) if refused is None else rejected(command, refused))

        operator = Operator(remark.removeprefix(OPERATOR_REMARK)) if remark else None
        self._operation.resume(session, log_offset, operator, done)
