"""Requests of our own, for tools: EXPLAIN_TRANSACTION returns what happened to a transaction, LIST_CHECKS how often
open transactions were checked, LIST_TRANSACTIONS a page of undecided ones, SUMMARIZE_TRANSACTIONS how many there are.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import msgspec

from gantrymq.broker.message_rights import MessageRights, told_to
from gantrymq.broker.operations.explaining import Explaining
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.errors import GantryError
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import ExplainTransaction, ListChecks, ListTransactions
from gantrymq.runtime.tasks import TaskGroupOwner
from gantrymq.transactions.rules.states import State

_STATES = {state.text: state for state in (State.OPEN, State.PARKED)}


class ExplainHandler:
    """Answers each explanation from a task of its own, because looking for an op message may take a while."""

    def __init__(self, explaining: Explaining, rights: MessageRights | None) -> None:
        """``rights``: None: the broker has no users."""
        self._explaining = explaining
        self._rights = rights
        self._tasks = TaskGroupOwner("explain")

    def explain(self, session: ClientSession, command: Command) -> None:
        """Answered when all is found."""
        transaction_id = command.header(ExplainTransaction).transaction_id
        told = told_to(self._rights, session)
        self._tasks.start(
            "one", self._answer(session, command, self._explaining.explanations.explain(transaction_id, told))
        )

    def page(self, session: ClientSession, command: Command) -> None:
        """Answered when all is found."""
        from gantrymq.broker.transactions.pages import Wanted

        header = command.header(ListTransactions)
        state = _STATES.get(header.state)
        if state is None:
            raise Refused(Refusal.PARAMETER_INVALID, f"state is {header.state!r}; write open or parked")
        wanted = Wanted(
            state, header.group, header.topic, max(header.min_age_ms, 0), header.after, header.count,
            told_to(self._rights, session),
        )  # fmt: skip
        self._tasks.start("page", self._answer(session, command, self._explaining.explanations.pages.page(wanted)))

    def summary(self, session: ClientSession, command: Command) -> bytes:
        """Made at once: everything in it is counted anyway."""
        body = msgspec.json.encode(self._explaining.explanations.pages.summary(told_to(self._rights, session)))
        return encode_response(command, ResponseCode.SUCCESS, body=body)

    def list_checks(self, session: ClientSession, command: Command) -> bytes:
        """What the records of halves do not say."""
        header = command.header(ListChecks)
        found = self._explaining.explanations.checks(range(header.begin, header.end))
        rows = [[offset, known.times, known.unknown_answers, known.next_look_ms] for offset, known in found.items()]
        return encode_response(command, ResponseCode.SUCCESS, body=msgspec.json.encode(rows))

    async def _answer(self, session: ClientSession, command: Command, found: Awaitable[Any]) -> None:
        try:
            body = msgspec.json.encode(await found)
            answer = encode_response(command, ResponseCode.SUCCESS, body=body)
        except Refused as refused:
            answer = rejected(command, refused)
        except GantryError as error:
            answer = encode_response(command, ResponseCode.SYSTEM_ERROR, remark=str(error))
        session.answer(command, answer)

    async def close(self) -> None:
        """Stop running explanations; their requests are not answered."""
        await self._tasks.stop()
