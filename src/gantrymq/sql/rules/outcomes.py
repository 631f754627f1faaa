"""The outcome table of one database, as the protocol uses it: queries of a claim, the identity, the cleaning. Pure.

Every function here says which statements to execute and what their answers mean; see ``claim`` and ``tables``.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from gantrymq.errors import ConfigError
from gantrymq.message.system_topics import check_group
from gantrymq.sql.rows.dialect import Dialect
from gantrymq.sql.rows.failures import Failure, is_database_error, read_failure
from gantrymq.sql.rows.place import Place, engine_without_transactions, parameters_of, read_place, where
from gantrymq.sql.rows.tables import CLEANED, DATABASE, OUTCOMES, BatchStatements, Outcome, OutcomeStatements
from gantrymq.sql.rules.claim import ATTEMPTS, Failed, Query, Rows

Statement = tuple[str, tuple[Any, ...]]
Counted = tuple[str, tuple[Any, ...], int]
"""A statement, its parameters, and how many rows it must change."""
IDENTITY_BYTES: Final = 8


class Outcomes:
    """The statements about outcomes for one database and one producer group."""

    def __init__(self, dialect: Dialect, group: str, table: str = OUTCOMES, claim_timeout_ms: int = 2_000) -> None:
        """``group``: empty where the database is only identified, as by a migration. Raises MessageIllegal."""
        if group:
            check_group(group)  # it stands in a statement, see insert_and_commit
        self.dialect: Final = dialect
        self.table: Final = table
        self.group: Final = group
        self.identity = ""
        """Of the database, once it is known: outcomes are inserted only where it is found."""
        self._claim_timeout_ms = claim_timeout_ms
        self._statements = OutcomeStatements(dialect, table, claim_timeout_ms)
        self._literal = OutcomeStatements(Dialect(dialect.kind, "qmark"), table).decide_marked

    def insert(self, transaction_id: str, mark: str = "", *, by_row: bool = False) -> Statement:
        """What the local transaction executes before it commits. It inserts one row, or none, or fails as NOT_NULL when
        this is not the expected database or has not the ``mark``; see ``place``."""
        compared = bool(mark) and self.dialect.kind.facts.compares_mark
        known = self._statements
        if by_row:
            text = known.decide_by_row_marked if compared else known.decide_by_row
        else:
            text = known.decide_marked if compared else known.decide
        return text, parameters_of(self.dialect.kind, transaction_id, self.identity, self.group, mark)

    def insert_and_commit(self, transaction_id: str, mark: str) -> str:
        """The same with the commit behind it, as one text without parameters. PostgreSQL only. Ids, identities, marks
        and groups consist of letters, digits and ``. % | - _``."""
        first, *others = self._literal.split("?")
        # None has a quote in it: they are made here, or were checked.
        values = parameters_of(self.dialect.kind, transaction_id, self.identity, self.group, mark)
        return first + "".join(f"'{value}'{other}" for value, other in zip(values, others, strict=True)) + "; COMMIT"

    def insert_more(self, transaction_ids: Sequence[str]) -> Statement:
        """Further outcomes "committed", in a transaction in which ``insert`` has found that this is the database."""
        rows = [(one, int(Outcome.COMMITTED), self.group) for one in transaction_ids]
        return self._statements.insert_more(len(rows)), tuple(value for row in rows for value in row)

    def look(self) -> list[Statement]:
        """The two rows that are no transactions."""
        return [(self._statements.find, ("",))]

    def query(self, query: Query, transaction_id: str) -> list[Statement]:
        """The statements of one query of a claim; its answer is that of the last one with rows."""
        if query is Query.FIND:
            return [(self._statements.find, (transaction_id,))]
        claim: list[Statement] = [(self._statements.claim, (transaction_id, transaction_id, self.group))]
        if self._statements.before_claim:
            claim = [(self._statements.before_claim, ()), *claim, (self._statements.after_claim, ())]
        return [*claim, (self._statements.find, (transaction_id,))]

    def identify(self, identity: str) -> Generator[Sequence[Statement], Rows | Failed, str]:
        """The identity of the database. ``identity``: what to write where there is none.

        Raises ConfigError when the table is missing; what else fails is raised as it came.
        """
        reason = ""
        for _ in range(ATTEMPTS):
            rows = yield [(self._statements.find, ("",))]
            if isinstance(rows, Failed):
                reason = rows.reason
                if rows.failure is not Failure.DISCONNECTED:  # a pool may have connections that died
                    raise self.unusable(rows)
                continue
            found = {row[0]: str(row[2]) for row in rows}
            if DATABASE in found and CLEANED in found:
                self.identity = found[DATABASE]
                return self.identity
            for row, note in ((CLEANED, ""), (DATABASE, identity)):
                if row not in found:
                    made = yield [(self._statements.insert, (row, int(Outcome.NONE), note))]
                    reason = made.reason if isinstance(made, Failed) else ""  # perhaps another process was faster
        raise ConfigError(
            f"the row {DATABASE} of the table {self.table} cannot be read or written: {reason}. Call start() before "
            "the first local transaction begins"
        )

    def find_place(self) -> Generator[Sequence[Statement], Rows | Failed, None]:
        """Find out where the table is, so that statements can name it with its schema. A database that does not say
        it keeps the name as it is: the identity is compared all the same.

        Raises ConfigError for a table whose rows cannot be rolled back (MyISAM).
        """
        kind = self.dialect.kind
        rows = yield [(where(kind, self.table), ())]
        row = None if isinstance(rows, Failed) or not rows else tuple(str(value) for value in rows[0])
        found = row if row is not None and len(row) == 3 else None
        engine = engine_without_transactions(kind, found)
        if engine is not None:
            raise ConfigError(
                f"the table {self.table} has the storage engine {engine}, which cannot roll anything back. Change it: "
                f"ALTER TABLE {self.table} ENGINE=InnoDB"
            )
        self._know(read_place(kind, self.table, found))

    def _know(self, place: Place) -> None:
        self._statements = OutcomeStatements(self.dialect, self.table, self._claim_timeout_ms, place)
        self._literal = OutcomeStatements(Dialect(self.dialect.kind, "qmark"), self.table, 0, place).decide_marked

    def unusable(self, failed: Failed) -> Exception:
        """The error for a table that cannot be read at the start."""
        if failed.failure is Failure.NO_TABLE:
            return ConfigError(
                f"the database has no table {self.table}: call create_table() once, or put the statements of "
                "`gantry sql ddl --dialect ...` into your migrations"
            )
        return ConfigError(f"the table {self.table} cannot be read: {failed.reason}")

    def move_horizon(self, horizon: str) -> list[list[Statement]]:
        """Let everybody know that rows of ids below ``horizon`` may be deleted. Each list is one call; the first one
        fails as a duplicate when the row ``#cleaned`` exists. See ``cleaning``."""
        return [
            [(self._statements.insert, (CLEANED, int(Outcome.NONE), ""))],
            [(self._statements.move_horizon, (horizon, horizon))],
        ]

    @property
    def cleaning(self) -> BatchStatements:
        """How rows are deleted, by their ids."""
        return self._statements.cleaning


def failed(error: Exception) -> Failed:
    """An error of a database as a value. What is no database's error is raised: it is a defect, and no outcome."""
    if not is_database_error(error) and not isinstance(error, OSError):
        raise error
    words = str(error).strip().splitlines() or [""]
    return Failed(read_failure(error), f"{type(error).__name__}: {words[0]}")
