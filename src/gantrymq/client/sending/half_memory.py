"""What this process remembers of the transactions that it sent, so that it can answer checks without calling the
listener. No I/O.

A half message is sent again after an attempt with an unknown result, so one transaction can have more than one half
message. A broker joins half messages that it stored itself. A half message on another broker is an orphan that only
its sender can recognise.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from gantrymq.client.sending.longest_transaction import LongestTransaction
from gantrymq.message.transaction import LocalTransactionState


class _Transaction(msgspec.Struct):
    running: bool = True
    broker_name: str = ""
    """The place of the half message that this process ends; empty while no broker has confirmed one."""
    log_offset: int = -1
    state: LocalTransactionState = LocalTransactionState.UNKNOWN
    confirmed: bool = False
    longest: LongestTransaction | None = None


class HalfMemory:
    """The last ``limit`` transactions by id; older ones are forgotten."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._transactions: OrderedDict[str, _Transaction] = OrderedDict()

    def started(self, transaction_id: str, longest: LongestTransaction | None = None) -> None:
        """A half message is about to be sent. Its id may be that of an earlier attempt. ``longest``: how long its local
        transaction may take here; None: for ever."""
        self._transactions[transaction_id] = _Transaction(longest=longest)
        self._transactions.move_to_end(transaction_id)
        while len(self._transactions) > self._limit:
            self._transactions.popitem(last=False)

    def placed(self, transaction_id: str, broker_name: str, log_offset: int) -> None:
        """A broker confirmed the half message; the local transaction may run."""
        if (transaction := self._transactions.get(transaction_id)) is not None:
            transaction.broker_name, transaction.log_offset = broker_name, log_offset

    def broker_of(self, transaction_id: str) -> str:
        """The name of the broker that has confirmed its half message; empty: none has, or it is forgotten."""
        transaction = self._transactions.get(transaction_id)
        return "" if transaction is None else transaction.broker_name

    def longest_of(self, transaction_id: str) -> LongestTransaction | None:
        """How long its local transaction may take, when it is running here."""
        transaction = self._transactions.get(transaction_id)
        return None if transaction is None else transaction.longest

    def ended(self, transaction_id: str, state: LocalTransactionState) -> None:
        """The local transaction is over (or will never run)."""
        if (transaction := self._transactions.get(transaction_id)) is not None:
            transaction.running, transaction.state = False, state

    def confirmed(self, transaction_id: str) -> None:
        """The broker has carried out the decision."""
        if (transaction := self._transactions.get(transaction_id)) is not None:
            transaction.confirmed = True

    def answer(self, transaction_id: str, broker_name: str, log_offset: int) -> LocalTransactionState | None:
        """The answer to a check of the half at ``log_offset`` of ``broker_name``; None: ask the listener. UNKNOWN means
        that the local transaction is still running here.

        | running | half here | on the broker asking | its offset | state    | confirmed | answer   |
        |---------|-----------|----------------------|------------|----------|-----------|----------|
        | yes     |           |                      |            |          |           | UNKNOWN  |
        | no      | no        |                      |            |          |           | ROLLBACK | the local transaction never ran
        | no      | yes       | no                   |            |          |           | ROLLBACK | an orphan
        | no      | yes       | yes                  | other      | decided  | yes       | ROLLBACK | a copy: the outcome exists already
        | no      | yes       | yes                  |            | decided  |           | state    |
        | no      | yes       | yes                  |            | UNKNOWN  |           | ask      |

        A transaction that is not remembered here is left to the listener. The fourth row is for Apache's brokers, which
        check a copy of the half message and would deliver a second time.
        """  # noqa: E501
        transaction = self._transactions.get(transaction_id)
        if transaction is None:
            return None
        if transaction.running:
            return LocalTransactionState.UNKNOWN
        if transaction.broker_name != broker_name:
            return LocalTransactionState.ROLLBACK
        if transaction.state is LocalTransactionState.UNKNOWN:
            return None
        if transaction.confirmed and transaction.log_offset != log_offset:
            return LocalTransactionState.ROLLBACK
        return transaction.state
