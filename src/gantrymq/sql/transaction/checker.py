"""Answers check-backs from the outcome table. Decisive: it claims a transaction that it does not find."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import Any, Final

from gantrymq.client.listener import ListenerAnswer
from gantrymq.message import properties
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rows.transaction_id import is_id
from gantrymq.sql.rules import steps
from gantrymq.sql.rules.claim import Answer, Failed, Query, Rows, unknown
from gantrymq.sql.rules.runner import perform, performed
from gantrymq.sql.transaction.local import LocalSteps

log = logging.getLogger("gantrymq.sql")
Asking = Callable[[Query, str], Rows | Failed]


class _Decisive:
    """The listener of producers whose local transactions write outcome rows. It may be asked at any time.

    Any process with the same producer group and the same database can answer for any other. COMMIT and ROLLBACK are
    final. Anything that is not certain is UNKNOWN with a reason.
    """

    decisive: Final = True

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Never called: local transactions run in the user's own code."""
        raise NotImplementedError("local transactions are run by gantrymq.sql")


class OutcomeChecker(_Decisive):
    """In a thread."""

    def __init__(self, ask: Asking) -> None:
        """``ask``: carries out a query of the claim; never raises for a failure of the database."""
        self._ask = ask

    def check_local_transaction(self, message: MessageView) -> ListenerAnswer:
        return told(message, self._answer(message))

    def _answer(self, message: MessageView) -> Answer:
        return performed(asked(message), lambda step: self._ask(step.query, step.transaction_id))


class AsyncOutcomeChecker(_Decisive):
    """On an event loop."""

    def __init__(self, local: LocalSteps) -> None:
        self._local = local

    async def check_local_transaction(self, message: MessageView) -> ListenerAnswer:
        answer = await perform(asked(message), lambda step: self._local.answer(step.query, step.transaction_id))
        return told(message, answer)


def asked(message: MessageView) -> Generator[steps.Ask, Rows | Failed, Answer]:
    """The questions to the database about a half message, and the answer."""
    transaction_id, _, identity = message.properties.get(properties.LOCAL_TRANSACTION, "").partition(" ")
    if not is_id(transaction_id) or not identity:
        return unknown(
            "this half message was not sent by gantrymq.sql; give each way of sending a producer group of its own"
        )
    return (yield from steps.ask(transaction_id, identity))


def told(message: MessageView, answer: Answer) -> ListenerAnswer:
    """The answer for the broker. One that is not certain is logged."""
    if answer.state is LocalTransactionState.UNKNOWN:
        log.warning("the outcome of message %s is not known: %s", message.message_id, answer.reason)
    return ListenerAnswer(answer.of_halves, remark=answer.reason, ask_again=answer.passing)
