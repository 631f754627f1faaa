"""Commit a row and its messages together: local transactions in the user's own database.

With SQLAlchemy, it needs ``gantrymq[sql]``; with the connections of a driver alone, nothing more. So nothing is
imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gantrymq.errors import OutcomeUnknown as OutcomeUnknown
    from gantrymq.errors import TransactionClaimed as TransactionClaimed
    from gantrymq.errors import TransactionTooOld as TransactionTooOld
    from gantrymq.sql.async_connections import AsyncConnectionTransaction as AsyncConnectionTransaction
    from gantrymq.sql.async_connections import AsyncConnectionTransactions as AsyncConnectionTransactions
    from gantrymq.sql.async_inbox import AsyncInbox as AsyncInbox
    from gantrymq.sql.async_inbox import AsyncInboxTransaction as AsyncInboxTransaction
    from gantrymq.sql.async_transactions import AsyncTransactions as AsyncTransactions
    from gantrymq.sql.connections import ConnectionTransaction as ConnectionTransaction
    from gantrymq.sql.connections import ConnectionTransactions as ConnectionTransactions
    from gantrymq.sql.inbox import Inbox as Inbox
    from gantrymq.sql.inbox import InboxTransaction as InboxTransaction
    from gantrymq.sql.sqlalchemy_async import AsyncLocalTransaction as AsyncLocalTransaction
    from gantrymq.sql.sqlalchemy_async import AsyncSessionTransactions as AsyncSessionTransactions
    from gantrymq.sql.sqlalchemy_sessions import send as send
    from gantrymq.sql.sqlalchemy_transactions import LocalTransaction as LocalTransaction
    from gantrymq.sql.sqlalchemy_transactions import SessionTransactions as SessionTransactions
    from gantrymq.sql.transactions import Transactions as Transactions

_HOMES = {
    "AsyncConnectionTransaction": "sql.async_connections",
    "AsyncConnectionTransactions": "sql.async_connections",
    "AsyncInbox": "sql.async_inbox",
    "AsyncInboxTransaction": "sql.async_inbox",
    "AsyncLocalTransaction": "sql.sqlalchemy_async",
    "AsyncSessionTransactions": "sql.sqlalchemy_async",
    "AsyncTransactions": "sql.async_transactions",
    "ConnectionTransaction": "sql.connections",
    "ConnectionTransactions": "sql.connections",
    "Inbox": "sql.inbox",
    "InboxTransaction": "sql.inbox",
    "LocalTransaction": "sql.sqlalchemy_transactions",
    "OutcomeUnknown": "errors",
    "SessionTransactions": "sql.sqlalchemy_transactions",
    "TransactionClaimed": "errors",
    "TransactionTooOld": "errors",
    "Transactions": "sql.transactions",
    "send": "sql.sqlalchemy_sessions",
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
