"""Commit a row and its messages together: local transactions in the user's own database.

With SQLAlchemy, it needs ``gantrymq[sql]``; with the connections of a driver alone, nothing more. So nothing is
imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gantrymq.errors import OutboxFull as OutboxFull
    from gantrymq.errors import OutcomeUnknown as OutcomeUnknown
    from gantrymq.errors import TransactionBroken as TransactionBroken
    from gantrymq.errors import TransactionClaimed as TransactionClaimed
    from gantrymq.errors import TransactionTooOld as TransactionTooOld
    from gantrymq.sql.async_transactions import AsyncConnectionTransactions as AsyncConnectionTransactions
    from gantrymq.sql.async_transactions import AsyncSessionTransactions as AsyncSessionTransactions
    from gantrymq.sql.async_transactions import AsyncTransactions as AsyncTransactions
    from gantrymq.sql.connections.async_transactions import AsyncConnectionTransaction as AsyncConnectionTransaction
    from gantrymq.sql.connections.transactions import ConnectionTransaction as ConnectionTransaction
    from gantrymq.sql.inbox.async_inbox import AsyncInbox as AsyncInbox
    from gantrymq.sql.inbox.async_inbox import AsyncInboxTransaction as AsyncInboxTransaction
    from gantrymq.sql.inbox.inbox import Inbox as Inbox
    from gantrymq.sql.inbox.inbox import InboxTransaction as InboxTransaction
    from gantrymq.sql.sqlalchemy.async_transactions import AsyncLocalTransaction as AsyncLocalTransaction
    from gantrymq.sql.sqlalchemy.sending import send as send
    from gantrymq.sql.sqlalchemy.transactions import LocalTransaction as LocalTransaction
    from gantrymq.sql.transactions import ConnectionTransactions as ConnectionTransactions
    from gantrymq.sql.transactions import SessionTransactions as SessionTransactions
    from gantrymq.sql.transactions import Transactions as Transactions

_HOMES = {
    "AsyncConnectionTransaction": "sql.connections.async_transactions",
    "AsyncConnectionTransactions": "sql.async_transactions",
    "AsyncInbox": "sql.inbox.async_inbox",
    "AsyncInboxTransaction": "sql.inbox.async_inbox",
    "AsyncLocalTransaction": "sql.sqlalchemy.async_transactions",
    "AsyncSessionTransactions": "sql.async_transactions",
    "AsyncTransactions": "sql.async_transactions",
    "ConnectionTransaction": "sql.connections.transactions",
    "ConnectionTransactions": "sql.transactions",
    "Inbox": "sql.inbox.inbox",
    "InboxTransaction": "sql.inbox.inbox",
    "LocalTransaction": "sql.sqlalchemy.transactions",
    "OutboxFull": "errors",
    "OutcomeUnknown": "errors",
    "SessionTransactions": "sql.transactions",
    "TransactionBroken": "errors",
    "TransactionClaimed": "errors",
    "TransactionTooOld": "errors",
    "Transactions": "sql.transactions",
    "send": "sql.sqlalchemy.sending",
}
"""Where each public name lives."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gantrymq.sql' has no attribute {name!r}")
    try:
        return getattr(import_module(f"gantrymq.{home}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("sqlalchemy", "greenlet"):
            raise
        raise ImportError(
            f"gantrymq.sql.{name} needs SQLAlchemy: pip install 'gantrymq[sql]'", name=error.name
        ) from error


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
