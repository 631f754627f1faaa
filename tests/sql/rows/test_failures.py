"""What the errors of each driver mean."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pymysql
import pytest
import sqlalchemy.exc

from gantrymq.sql.rows.failures import _NUMBERS, _STATES, Failure, is_database_error, read_failure
from gantrymq.sql.rules.outcomes import failed


def of_psycopg(state: str) -> Exception:
    return psycopg.errors.lookup(state)("no")


def of_asyncpg(state: str) -> Exception:
    return asyncpg.PostgresError.new({"C": state, "M": "no"})


def of_pymysql(number: int) -> Exception:
    return pymysql.err.OperationalError(number, "no")


def wrapped(error: Exception, lost: bool = False) -> Exception:
    return sqlalchemy.exc.OperationalError("SELECT 1", {}, error, connection_invalidated=lost)


def caused(error: Exception) -> Exception:
    """As Django does it."""
    outer = RuntimeError("django.db.utils.OperationalError")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize("wrap", [lambda error: error, wrapped, caused])
@pytest.mark.parametrize(("state", "failure"), _STATES.items())
def test_states_of_postgresql(state: str, failure: Failure, wrap: Any) -> None:
    assert read_failure(wrap(of_psycopg(state))) is failure
    assert read_failure(wrap(of_asyncpg(state))) is failure


@pytest.mark.parametrize("wrap", [lambda error: error, wrapped, caused])
@pytest.mark.parametrize(("number", "failure"), _NUMBERS.items())
def test_numbers_of_mysql(number: int, failure: Failure, wrap: Any) -> None:
    assert read_failure(wrap(of_pymysql(number))) is failure


def test_a_number_of_mysql_counts_more_than_its_sqlstate() -> None:
    error = of_pymysql(1062)
    error.sqlstate = "23000"  # type: ignore[attr-defined]
    assert read_failure(error) is Failure.DUPLICATE


@pytest.mark.parametrize("state", ["08000", "08003", "08006", "08P01"])
def test_class_08_is_a_lost_connection(state: str) -> None:
    assert read_failure(of_psycopg(state)) is Failure.DISCONNECTED


@pytest.mark.parametrize("state", ["22001", "42601", "53100", "XX000", "42501"])
def test_what_is_not_known_is_other(state: str) -> None:
    assert read_failure(of_psycopg(state)) is Failure.OTHER
    assert read_failure(of_pymysql(1406)) is Failure.OTHER


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("the connection is lost"),
        psycopg.InterfaceError("the connection is closed"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.InterfaceError("connection is closed"),
        pymysql.err.InterfaceError(0, ""),
        ConnectionResetError("reset by peer"),
        TimeoutError("timed out"),
    ],
)
def test_a_lost_connection(error: Exception) -> None:
    assert read_failure(error) is Failure.DISCONNECTED


def test_sqlalchemy_knows_when_a_connection_is_lost() -> None:
    assert read_failure(wrapped(ValueError("whatever it was"), lost=True)) is Failure.DISCONNECTED


def test_errors_of_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    one, other = sqlite3.connect(path), sqlite3.connect(path, timeout=0)

    def failure_of(connection: sqlite3.Connection, statement: str) -> Failure:
        with pytest.raises(sqlite3.Error) as caught:
            connection.execute(statement)
        return read_failure(caught.value)

    assert failure_of(one, "SELECT * FROM t") is Failure.NO_TABLE
    one.execute("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER UNIQUE)")
    one.execute("INSERT INTO t VALUES ('a', 1)")
    assert failure_of(one, "INSERT INTO t VALUES ('a', 2)") is Failure.DUPLICATE
    assert failure_of(one, "INSERT INTO t VALUES ('b', 1)") is Failure.DUPLICATE
    assert failure_of(other, "INSERT INTO t VALUES ('c', 3)") is Failure.LOCKED
    one.commit()
    other.execute("PRAGMA query_only = on")
    assert failure_of(other, "INSERT INTO t VALUES ('c', 3)") is Failure.READ_ONLY
    assert failure_of(one, "SELEKT") is Failure.OTHER
    other.rollback()
    other.execute("PRAGMA query_only = off")
    one.execute("PRAGMA journal_mode = WAL")
    other.execute("BEGIN")
    other.execute("SELECT * FROM t").fetchall()
    one.execute("INSERT INTO t VALUES ('d', 4)")
    one.commit()
    assert failure_of(other, "INSERT INTO t VALUES ('e', 5)") is Failure.CONFLICT, "its snapshot is old"
    one.close()
    other.close()


def test_what_no_database_said_is_raised() -> None:
    assert not is_database_error(ValueError("a defect"))
    with pytest.raises(ValueError, match="a defect"):
        failed(ValueError("a defect"))


def test_a_failure_has_one_line_of_words() -> None:
    found = failed(wrapped(of_psycopg("42P01")))
    assert found.failure is Failure.NO_TABLE
    assert found.reason.startswith("OperationalError: (psycopg.errors.UndefinedTable)") and "\n" not in found.reason


def test_a_circle_of_causes_ends() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert read_failure(one) is Failure.OTHER
