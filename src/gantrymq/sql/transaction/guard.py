"""What is known of one transaction of a block: its mark, its savepoints, and whether the database has ended it.

Each way in tells it what happens, and asks it before messages are taken and before the commit; see ``rules.proof``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from gantrymq.errors import TransactionBroken
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.failures import Failure, read_failure
from gantrymq.sql.rules import proof
from gantrymq.sql.rules.broken import COMMITTED_INSIDE, ENDED_INSIDE, ROLLED_BACK_INSIDE, UNSEEN_SAVEPOINT, WENT_ON

GUARD: Final = "gantrymq.guard"
"""In ``session.info`` of SQLAlchemy: the Guard of the running transaction."""
IN_TRANSACTION: Final = 1
"""SERVER_STATUS_IN_TRANS, a bit of the status that MySQL sends with every OK."""


class Guard:
    """Of one transaction."""

    def __init__(self, kind: DatabaseKind) -> None:
        self.kind: Final = kind
        self.mark = proof.new_mark()
        self.savepoints: Final = proof.Savepoints()
        self.needed = False
        """There are messages, or rows of an inbox, or the block is one of ours: it must be proved that it is one
        transaction."""
        self.proved = False
        """The insert of the outcome row compares the mark."""
        self.doubtful = False
        """A savepoint was rolled back that nobody here saw begin."""
        self.rolled_back = False
        """The database has rolled everything back after an error."""
        self.went_on = False
        """The block has executed statements behind that."""
        self.seen_running = False
        """A MySQL server has said that a transaction runs."""
        self.commit_seen = False
        """A statement has committed what was before it. The mark tells the same, but not on a connection that is
        lost."""
        self.committed_inside = False
        """Found at the rollback: something was committed before it."""
        self.ended = False
        """The mark was looked for, or there is nothing left to look for."""
        self.on_rollback_to: Callable[[int], None] = lambda number: None
        """Called with the number of a savepoint that is rolled back."""

    @property
    def why_over(self) -> str:
        """What is said of a transaction that was ``rolled_back``."""
        return WENT_ON if self.went_on else ROLLED_BACK_INSIDE

    def check(self) -> None:
        """Raises when it is known already that this transaction cannot take or commit messages."""
        if self.rolled_back:
            raise TransactionBroken(self.why_over)
        if self.doubtful:
            raise TransactionBroken(UNSEEN_SAVEPOINT)

    def look(self, connection: Any) -> None:
        """Look for the mark by a cursor of the driver. Once; raises TransactionBroken without it."""
        if self.ended:
            return
        self.ended = True
        if self.rolled_back:
            raise TransactionBroken(self.why_over)
        if self.commit_seen:  # the connection may be lost since
            raise TransactionBroken(ENDED_INSIDE)
        cursor = connection.cursor()
        try:
            cursor.execute(proof.look(self.kind))
            found = cursor.fetchone()[0] if self.kind.facts.compares_mark else self.mark
        except Exception as error:
            if proof.is_missing(error):
                raise TransactionBroken(ENDED_INSIDE) from error
            raise
        finally:
            with suppress(Exception):
                cursor.close()
        if found != self.mark:
            raise TransactionBroken(ENDED_INSIDE)

    def look_at_rollback(self, connection: Any) -> TransactionBroken | None:
        """The same before a rollback: returns an error when a part of the transaction was committed before."""
        if self.needed and not (self.rolled_back or self.proved or self.commit_seen):
            try:
                self.look(connection)
            except TransactionBroken:
                self.committed_inside = True
            except Exception:  # noqa: BLE001 - the connection was lost, or PostgreSQL waits for the rollback
                return None
        return self.broken_by_commit()

    def broken_by_commit(self) -> TransactionBroken | None:
        """The error for a transaction that was rolled back, when a part of it had been committed before."""
        if self.needed and self.commit_seen and not self.ended and not self.proved:
            self.committed_inside = True
        return TransactionBroken(COMMITTED_INSIDE) if self.committed_inside else None

    def before(self, statement: str) -> None:
        """A statement comes. Raises when the database has rolled everything back, and there are messages."""
        if self.rolled_back and self.needed:
            raise TransactionBroken(self.why_over)
        self.went_on = self.rolled_back
        command = proof.command_of(statement)
        if command is None:
            return
        what, name = command
        if what == "begin":
            self.savepoints.begin(name)
        elif what == "release":
            self.savepoints.release(name)
        else:
            number = self.savepoints.roll_back(name)
            if number is None:
                self.doubtful = True
            else:
                self.on_rollback_to(number)

    def succeeded(self, statement: str, connection: Any) -> None:
        """A statement was executed. ``connection``: that of the driver."""
        status = getattr(connection, "server_status", None)
        runs = status is None or bool(status & IN_TRANSACTION)
        ended = self.seen_running and not runs and statement.lstrip()[:8].upper() != "ROLLBACK"
        self.commit_seen = self.commit_seen or ended or proof.commits(self.kind, statement)
        self.seen_running = status is not None and runs

    def failed(self, error: BaseException, connection: Any) -> None:
        """A statement has failed. ``connection``: that of the driver."""
        if self.kind.facts.in_process:
            self.rolled_back = self.rolled_back or not getattr(connection, "in_transaction", True)
        elif not self.kind.facts.refuses_after_error and read_failure(error) is Failure.CONFLICT:
            self.rolled_back = True
