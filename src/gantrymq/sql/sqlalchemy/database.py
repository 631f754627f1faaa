"""An engine of SQLAlchemy as the Database that claims are made in. Sources: SQLAlchemy's Engine, Connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.dialect import BEGIN, SHARED_NAME, Dialect, dialect_in_sqlalchemy
from gantrymq.sql.transaction.database import Counted, Rows

_SHARED: Final = (StaticPool, SingletonThreadPool)
"""Pools that give out a connection which is in use already. One of SQLite in memory has these."""


def check_pool(engine: Engine) -> None:
    """Raises ConfigError for an engine that cannot give out connections of their own."""
    if isinstance(engine.pool, _SHARED):
        raise ConfigError(
            f"the pool {type(engine.pool).__name__} of this engine has one connection for everything, or for each "
            "thread, and check-backs need connections of their own. For SQLite give it a file (sqlite:///shop.db); "
            "for tests in memory: create_engine('sqlite:///file:shop?mode=memory&cache=shared&uri=true', "
            "poolclass=QueuePool)"
        )


class SqlAlchemyDatabase:
    """Connections of ``engine`` in autocommit. For an AsyncEngine: its ``sync_engine``, in a greenlet."""

    def __init__(self, engine: Engine) -> None:
        """Raises ConfigError as ``check_pool``: a statement of a check-back would commit in the middle of a local
        transaction."""
        check_pool(engine)
        self.engine = engine

    def dialect(self) -> Dialect:
        if self.engine.dialect.name == SHARED_NAME:
            with self.engine.connect():
                pass  # only behind it, SQLAlchemy knows which of the two it is
        return dialect_in_sqlalchemy(self.engine.dialect)

    def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows:
        rows: Rows = ()
        with self.engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            try:
                for statement, parameters in statements:
                    rows = execute(connection, statement, parameters) or rows
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise
                connection.invalidate()  # settings of it may be left behind, and nobody knows in what state it is
                raise
        return rows

    def kept(self) -> SqlAlchemyDatabase:
        return self

    def rest(self) -> None:
        """Its pool keeps connections."""

    def together(self, statements: Sequence[Counted]) -> bool:
        with self.engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            try:
                connection.exec_driver_sql(BEGIN[dialect_in_sqlalchemy(self.engine.dialect).kind])
                for text, parameters, count in statements:
                    if insert(connection, text, parameters) != count:
                        connection.exec_driver_sql("ROLLBACK")
                        return False
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                connection.invalidate()  # the transaction may be open
                raise
        return True


def database_of(engine: Engine) -> SqlAlchemyDatabase:
    """Raises ConfigError for what is no Engine."""
    if not isinstance(engine, Engine):
        raise ConfigError(f"engine must be an Engine or AsyncEngine of SQLAlchemy, not {engine!r}")
    return SqlAlchemyDatabase(engine)


def insert(connection: Connection, statement: str, parameters: tuple[Any, ...]) -> int:
    """How many rows it has inserted."""
    return connection.exec_driver_sql(statement, parameters).rowcount


def execute(connection: Connection, statement: str, parameters: tuple[Any, ...]) -> Rows:
    result = connection.exec_driver_sql(statement, parameters)
    return [tuple(row) for row in result.fetchall()] if result.returns_rows else ()
