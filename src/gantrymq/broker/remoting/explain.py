"""EXPLAIN_TRANSACTION: what happened to a transaction; LIST_CHECKS: how often open ones were asked about. For tools;
requests of our own. HTTP answers the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.errors import GantryError
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import CHECKS_SPAN_MAX, ExplainTransaction, ListChecks
from gantrymq.runtime.tasks import TaskGroupOwner

if TYPE_CHECKING:
    from gantrymq.broker.transactions.explanations import TransactionExplanations

WORKING_MAX = 16
"""Explanations made at the same time; each may read a lot."""


class ExplainProcessor:
    """Explains transactions; each in a task of its own, because looking for an op message may take a while."""

    def __init__(self, explanations: Callable[[], TransactionExplanations]) -> None:
        """``explanations``: made when the first explanation is asked for."""
        self._explanations = explanations
        self._tasks = TaskGroupOwner("explain")
        self._working = 0

    def explain(self, session: ClientSession, command: Command) -> None:
        """Answered when all is found."""
        header = command.header(ExplainTransaction)
        if self._working >= WORKING_MAX:
            raise Refused(Refusal.BUSY, "too many explanations at the same time; try again")
        self._working += 1
        self._tasks.start("one", self._answer(session, command, header.transaction_id))

    def list_checks(self, session: ClientSession, command: Command) -> bytes:
        """What the records of halves do not say."""
        header = command.header(ListChecks)
        if header.end - header.begin > CHECKS_SPAN_MAX:
            raise Refused(Refusal.PARAMETER_INVALID, f"ask about at most {CHECKS_SPAN_MAX} half queue offsets at once")
        found = self._explanations().checks(range(header.begin, header.end))
        rows = [[offset, asked.times, asked.unknown_answers, asked.next_look_ms] for offset, asked in found.items()]
        return encode_response(command, ResponseCode.SUCCESS, body=msgspec.json.encode(rows))

    async def _answer(self, session: ClientSession, command: Command, transaction_id: str) -> None:
        try:
            body = msgspec.json.encode(await self._explanations().explain(transaction_id))
            answer = encode_response(command, ResponseCode.SUCCESS, body=body)
        except GantryError as error:
            answer = encode_response(command, ResponseCode.SYSTEM_ERROR, remark=str(error))
        finally:
            self._working -= 1
        session.send(answer)

    async def close(self) -> None:
        """Stop what is under way; nobody is answered any more."""
        await self._tasks.stop()
