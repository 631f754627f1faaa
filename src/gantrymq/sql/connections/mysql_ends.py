"""What a driver of MySQL and MariaDB sees of the end of a transaction, from statement to statement.

The server says with each OK whether a transaction runs. So an end is known also when the connection is lost before the
mark of ``proof`` can be looked for.
"""

from __future__ import annotations

from typing import Any

from gantrymq.errors import TransactionBroken
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.failures import Failure, read_failure
from gantrymq.sql.rules import proof
from gantrymq.sql.rules.broken import ENDED_INSIDE, ROLLED_BACK_INSIDE
from gantrymq.sql.transaction.guard import IN_TRANSACTION


class Ends:
    """Of one transaction of a block, on a connection of PyMySQL or aiomysql."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.rolled_back = False
        """The server has rolled everything back after an error."""
        self.committed = False
        """A statement has committed what was before it."""

    @property
    def runs(self) -> bool:
        return bool(self._connection.server_status & IN_TRANSACTION)

    def check_runs(self) -> None:
        """Without autocommit, the server begins another transaction, which is refused at the end of the block."""
        commits_alone = self._connection.get_autocommit() and not self.runs
        if self.rolled_back or commits_alone:
            raise TransactionBroken(ROLLED_BACK_INSIDE if self.rolled_back else ENDED_INSIDE)

    def check_not_committed(self) -> None:
        """Before the mark is looked for, which cannot be done on a connection that is lost."""
        if self.committed:
            raise TransactionBroken(ENDED_INSIDE)

    def before(self, statement: str) -> None:
        if statement.lstrip()[:6].upper() != "UNLOCK":  # LOCK TABLES has ended it, and its locks must not stay
            self.check_runs()

    def failed(self, error: Exception) -> None:
        """The server says no more about it: its status comes with successes only."""
        self.rolled_back = self.rolled_back or read_failure(error) is Failure.CONFLICT

    def succeeded(self, ran: bool, statement: str) -> None:
        """``ran``: whether a transaction ran before the statement."""
        ended = ran and not self.runs and statement.lstrip()[:8].upper() != "ROLLBACK"
        self.committed = self.committed or ended or proof.commits(DatabaseKind.MYSQL, statement)
