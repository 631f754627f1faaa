"""END_TRANSACTION (37)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from gantrymq.broker.client import Client, Operator
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.broker.transactions.end import Done, EndRequest
from gantrymq.message.transaction import OPERATOR_REMARK, Resolution
from gantrymq.protocol.command import ONE_WAY_FLAG, Command, reader_of, success_of
from gantrymq.protocol.headers.transaction import EndTransaction

End = Callable[[Client, EndRequest, Done | None], None]
"""The operation ``EndOperation.end``."""

_read_header: Final = reader_of(EndTransaction)
_RESOLUTIONS: Final = {int(resolution): resolution for resolution in Resolution}


class EndTransactionHandler:
    """Translates requests 37, which end a transaction, and their answers. A one-way request is never answered."""

    def __init__(self, end: End) -> None:
        self._end = end

    def handle(self, session: ClientSession, command: Command) -> None:
        """Answered when the decision is stored, or when it is clear that nothing is to be stored."""
        header = _read_header(command)
        resolution = _RESOLUTIONS.get(header.commit_or_rollback)
        if resolution is None:
            raise Refused(Refusal.FAILED, "commitOrRollback field wrong; it is 0, 8 or 12")
        if header.from_transaction_check:
            answers_check, operator = True, operator_of(command)
        else:
            answers_check, operator = False, None
        done = None if command.flag & ONE_WAY_FLAG else partial(_answer, session, command)
        request = EndRequest(
            header.producer_group, header.tran_state_table_offset, header.commit_log_offset, header.msg_id,
            header.transaction_id, resolution, answers_check, operator,
        )  # fmt: skip
        self._end(session, request, done)


def _answer(session: ClientSession, command: Command, refused: Refused | None) -> None:
    session.answer(command, success_of(command) if refused is None else rejected(command, refused))


def operator_of(command: Command) -> Operator | None:
    """The person who sent a request by a tool, with the note; None when a program sent it."""
    remark = command.remark
    if remark and remark.startswith(OPERATOR_REMARK):
        return Operator(remark.removeprefix(OPERATOR_REMARK))
    return None
