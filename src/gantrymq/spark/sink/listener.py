"""Answers check-backs about half messages of the sink from the control topic.

Brokers ask about a half message when its immunity, the option ``undecidedTimeout``, is over. A batch that is still
undecided then is given up: the attempt is abandoned in the control topic, where no later decision can contain it any
more, and only then its half messages are rolled back. So nothing stays undecided for ever, and nothing that was rolled
back can be part of a decided batch.
"""

from __future__ import annotations

import logging
from typing import Any

from gantrymq.client.listener import ListenerAnswer
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.spark.sink.ids import Attempt, attempt_of
from gantrymq.spark.sink.ledger import Ledger
from gantrymq.spark.sink.rules import Abandoned, ControlState, Verdict

log = logging.getLogger("gantrymq.spark")

_ANSWERS = {
    Verdict.COMMIT: LocalTransactionState.COMMIT,
    Verdict.ROLL_BACK: LocalTransactionState.ROLLBACK,
    Verdict.UNDECIDED: LocalTransactionState.UNKNOWN,
}


class ControlListener:
    """The listener of a Committer. An error is raised, and the client answers UNKNOWN: the broker asks again."""

    def __init__(self) -> None:
        self.ledger: Ledger | None = None
        """Set when the Committer is made, which the ledger needs."""
        self._known: ControlState | None = None

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Not used: batches are decided by ``Commits``."""
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: MessageView) -> ListenerAnswer:
        """COMMIT or ROLLBACK; UNKNOWN for messages of somebody else who uses this producer group."""
        attempt = attempt_of(message.transaction_id or "")
        if attempt is None:
            return ListenerAnswer(LocalTransactionState.UNKNOWN, remark="not a half message of the Spark sink")
        if self.ledger is None:
            return ListenerAnswer(LocalTransactionState.UNKNOWN, remark="the checker is starting", ask_again=True)
        # A verdict never changes, so what was read before is enough when it says something.
        if self._known is None or self._known.verdict(attempt) is Verdict.UNDECIDED:
            self._known = self.ledger.refresh()
        verdict = self._known.verdict(attempt)
        if verdict is Verdict.UNDECIDED:
            verdict = self._abandon(self.ledger, attempt)
        return ListenerAnswer(_ANSWERS[verdict])

    def _abandon(self, ledger: Ledger, attempt: Attempt) -> Verdict:
        log.warning(
            "batch %d of the query %s is undecided after the option undecidedTimeout; attempt %s is given up",
            attempt.of.batch, attempt.of.query, attempt.token,
        )  # fmt: skip
        return ledger.insert(Abandoned(attempt.of.query, attempt.of.batch, attempt.token)).verdict(attempt)
