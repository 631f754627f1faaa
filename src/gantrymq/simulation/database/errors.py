"""Errors of the simulated database. They have PostgreSQL's codes, which ``gantrymq.sql.rows.failures`` reads."""

from __future__ import annotations

from typing import Final

DUPLICATE: Final = "23505"
SERIALIZATION: Final = "40001"
DEADLOCK: Final = "40P01"
LOCK_TIMEOUT: Final = "55P03"
READ_ONLY: Final = "25006"
NO_TABLE: Final = "42P01"
ABORTED: Final = "25P02"
"""A statement behind one that failed, in the same transaction."""
LOST: Final = "08006"
"""The connection failed: the statement may have been executed."""
REFUSED: Final = "08001"
"""No connection could be made."""


class Error(Exception):
    """PEP 249's name for what a database raises."""

    def __init__(self, sqlstate: str, text: str) -> None:
        self.sqlstate = sqlstate
        super().__init__(f"{text} [{sqlstate}]")
