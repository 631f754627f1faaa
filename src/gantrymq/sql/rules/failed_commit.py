"""What a caller learns after a commit that raised, once the database was asked what became of it."""

from __future__ import annotations

import logging
from typing import Protocol

from gantrymq.errors import GantryError, OutcomeUnknown, TransactionClaimed
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rows.failures import Failure, read_failure
from gantrymq.sql.rules.claim import Answer

log = logging.getLogger("gantrymq.sql")


class Ended(Protocol):
    """A local transaction with messages that has ended: Enlistment, AsyncEnlistment."""

    @property
    def transaction_id(self) -> str: ...

    @property
    def answer(self) -> Answer | None: ...


def error_after(error: BaseException, enlistment: Ended | None) -> BaseException | None:
    """What to raise for ``error``, which the commit raised; None: the transaction is committed all the same.

    Our own errors tell the truth already, and an interrupt (Ctrl-C, a cancelled task) is raised whatever happened.
    """
    answer = None if enlistment is None else enlistment.answer
    if enlistment is None or answer is None or isinstance(error, GantryError) or not isinstance(error, Exception):
        return error
    if answer.state is LocalTransactionState.ROLLBACK:
        return error
    if answer.state is LocalTransactionState.COMMIT:
        log.warning("transaction %s is committed, although the database raised %r", enlistment.transaction_id, error)
        return None
    return OutcomeUnknown(enlistment.transaction_id, answer.reason or "")


def may_run_again(error: Exception) -> bool:
    """Whether ``run`` calls the block again: the database could not serialize it, or a check-back was faster."""
    return isinstance(error, TransactionClaimed) or read_failure(error) is Failure.CONFLICT


def pause_before_next(error: Exception, attempt: int, attempts: int, chance: float) -> float | None:
    """Seconds before ``run`` calls the block again; None: it does not. ``chance``: from 0 to 1."""
    return chance * 0.01 * 2**attempt if attempt < attempts and may_run_again(error) else None
