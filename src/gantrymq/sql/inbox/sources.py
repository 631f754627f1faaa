"""Where an inbox gets its transactions from.

| given to ``Inbox``                      | a transaction is on                          | messages may be sent |
|-----------------------------------------|----------------------------------------------|----------------------|
| Transactions, AsyncTransactions         | what they were made with                     | yes                  |
| Engine, AsyncEngine                     | a new session                                | no                   |
| sessionmaker, async_sessionmaker        | a new session                                | if it is attached    |
| a function that returns a connection    | a new connection (psycopg, sqlite3, PyMySQL) | no                   |
| a coroutine function that returns one   | a new connection (psycopg, asyncpg, aiomysql)| no                   |
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from gantrymq.errors import ConfigError
from gantrymq.sql.async_transactions import AsyncTransactions
from gantrymq.sql.transaction.database import AsyncDatabase, Database
from gantrymq.sql.transaction.greenlet_database import for_loop
from gantrymq.sql.transactions import Transactions

MESSAGES_NEED_TRANSACTIONS = (
    "this inbox cannot send messages: give it a Transactions object instead of {given}, so that the effect and the "
    "messages commit together"
)


@dataclass(frozen=True, slots=True)
class Source:
    """Transactions of a database."""

    begin: Callable[[], Any]
    """A LocalTransaction, or one of its siblings."""
    database: Callable[[], Database | AsyncDatabase]
    """For statements on connections of their own. Raises ConfigError when it is not known."""
    is_async: bool


def source_of(given: Any, *, on_loop: bool) -> Source:
    """``on_loop``: any function that connects is one of the last line. Raises ConfigError for anything else than the
    table says."""
    if isinstance(given, Transactions | AsyncTransactions):
        database: Any = given._database
        asynchronous = isinstance(given, AsyncTransactions)
        return Source(given.begin, lambda: for_loop(database) if asynchronous else database, asynchronous)
    if type(given).__module__.partition(".")[0] == "sqlalchemy":
        return _of_sqlalchemy(given)
    if on_loop and callable(given) and not isinstance(given, type):
        return _of_async_connect(given)
    if inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(getattr(given, "__func__", None)):
        return _of_async_connect(given)
    if callable(given) and not isinstance(given, type):
        return _of_connect(given)
    raise ConfigError(
        "Inbox takes a Transactions object, an Engine, AsyncEngine, sessionmaker or async_sessionmaker of SQLAlchemy, "
        f"or a function that returns a new connection (`lambda: psycopg.connect(...)`), not {given!r}"
    )


def _of_sqlalchemy(given: Any) -> Source:
    from sqlalchemy.engine import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
    from sqlalchemy.orm import sessionmaker

    from gantrymq.sql.sqlalchemy.async_transactions import AsyncLocalTransaction
    from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase
    from gantrymq.sql.sqlalchemy.guard import watch_alone
    from gantrymq.sql.sqlalchemy.sessions import class_of
    from gantrymq.sql.sqlalchemy.transactions import LocalTransaction

    if isinstance(given, Engine | sessionmaker):
        sessions = sessionmaker(given) if isinstance(given, Engine) else given
        watch_alone(class_of(sessions))
        return Source(
            lambda: LocalTransaction(sessions), lambda: SqlAlchemyDatabase(_bound(sessions.kw, Engine)), is_async=False
        )
    if isinstance(given, AsyncEngine | async_sessionmaker):
        asynchronous = async_sessionmaker(given) if isinstance(given, AsyncEngine) else given
        watch_alone(class_of(asynchronous))
        return Source(
            lambda: AsyncLocalTransaction(asynchronous, _at_once),
            lambda: for_loop(SqlAlchemyDatabase(_bound(asynchronous.kw, AsyncEngine).sync_engine)), is_async=True,
        )  # fmt: skip
    raise ConfigError(
        f"Inbox takes an Engine, AsyncEngine, sessionmaker or async_sessionmaker of SQLAlchemy, not {given!r}"
    )


def _bound(settings: Any, kind: type) -> Any:
    bind = settings.get("bind")
    if not isinstance(bind, kind):
        raise ConfigError(f"for this, the inbox needs a session maker with bind=an {kind.__name__}, not {bind!r}")
    return bind


def _of_connect(connect: Callable[[], Any]) -> Source:
    from gantrymq.sql.connections.database import ConnectionDatabase
    from gantrymq.sql.connections.transactions import ConnectionTransaction

    database = ConnectionDatabase(connect)
    return Source(
        lambda: ConnectionTransaction(_no_messages, database.connect_checked, ours=True), lambda: database,
        is_async=False,
    )  # fmt: skip


def _of_async_connect(connect: Callable[[], Any]) -> Source:
    from gantrymq.sql.connections.async_drivers import AsyncConnectionDatabase
    from gantrymq.sql.connections.async_transactions import AsyncConnectionTransaction

    database = AsyncConnectionDatabase(connect)
    return Source(
        lambda: AsyncConnectionTransaction(_at_once, _no_messages, database.connect, ours=True), lambda: database,
        is_async=True,
    )  # fmt: skip


async def _at_once() -> None:
    """There is nothing to start."""


def _no_messages() -> NoReturn:
    raise ConfigError(MESSAGES_NEED_TRANSACTIONS.format(given="a function that connects"))
