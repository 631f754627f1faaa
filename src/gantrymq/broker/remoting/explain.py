"""Two requests of our own, for tools: EXPLAIN_TRANSACTION returns what happened to a transaction, and LIST_CHECKS how
often open transactions were checked. The HTTP endpoint returns the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.later import answer_later
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.errors import GantryError
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import ExplainTransaction, ListChecks
from gantrymq.runtime.tasks import TaskGroupOwner

if TYPE_CHECKING:
    from gantrymq.broker.transactions.explanations import TransactionExplanations


class ExplainHandler:
    """Answers each explanation from a task of its own, because looking for an op message may take a while."""

    def __init__(self, explanations: Callable[[], TransactionExplanations]) -> None:
        """``explanations``: made when the first explanation is asked for."""
        self._explanations = explanations
        self._tasks = TaskGroupOwner("explain")

    def explain(self, session: ClientSession, command: Command) -> None:
        """Answered when all is found."""
        transaction_id = command.header(ExplainTransaction).transaction_id
        self._tasks.start("one", self._answer(session, command, transaction_id))

    def list_checks(self, session: ClientSession, command: Command) -> bytes:
        """What the records of halves do not say."""
        header = command.header(ListChecks)
        found = self._explanations().checks(range(header.begin, header.end))
        rows = [[offset, known.times, known.unknown_answers, known.next_look_ms] for offset, known in found.items()]
        return encode_response(command, ResponseCode.SUCCESS, body=msgspec.json.encode(rows))

    async def _answer(self, session: ClientSession, command: Command, transaction_id: str) -> None:
        try:
            body = msgspec.json.encode(await self._explanations().explain(transaction_id))
            answer = encode_response(command, ResponseCode.SUCCESS, body=body)
        except Refused as refused:
            answer = rejected(command, refused)
        except GantryError as error:
            answer = encode_response(command, ResponseCode.SYSTEM_ERROR, remark=str(error))
        answer_later(session, command, answer)

    async def close(self) -> None:
        """Stop running explanations; their requests are not answered."""
        await self._tasks.stop()
