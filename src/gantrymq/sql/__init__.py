"""Commit a row and its messages together: local transactions in the user's own database. Needs ``gantrymq[sql]``."""

from gantrymq.errors import OutcomeUnknown, TransactionClaimed
from gantrymq.sql.async_transactions import AsyncLocalTransaction, AsyncTransactions
from gantrymq.sql.sqlalchemy_sessions import send
from gantrymq.sql.transactions import LocalTransaction, Transactions

__all__ = [
    "AsyncLocalTransaction",
    "AsyncTransactions",
    "LocalTransaction",
    "OutcomeUnknown",
    "TransactionClaimed",
    "Transactions",
    "send",
]
