"""The two tables in the user's database: outcomes of local transactions, and the inbox of consumers.

``gantrymq_outcomes`` has a row for every local transaction that is decided:

| column  | content                                                                                              |
|---------|------------------------------------------------------------------------------------------------------|
| id      | the id of the transaction; primary key, so that only one side can decide                              |
| outcome | 1: committed, written by the local transaction itself; 2: rolled back, written by a check-back; 3:   |
|         | committed, and its messages are rows of the outbox: none of its half messages is ever delivered      |
| note    | the producer group                                                                                    |

Two rows are no transactions. Their ids begin with ``#``:

| id         | note                                                                                          | outcome |
|------------|-----------------------------------------------------------------------------------------------|---------|
| #database  | the identity of this database, made by chance. A check-back for another database's id answers | 0       |
|            | UNKNOWN, because a row that is not here says nothing                                          |         |
| #cleaned   | rows of ids below this one may have been deleted: that one is missing says nothing            | 0       |

``gantrymq_inbox`` has a row for every message whose effect a consumer group has committed.
"""

from __future__ import annotations

import enum
import re
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.dialect import DatabaseKind, Dialect
from gantrymq.sql.rows.place import IDENTITY_ROW, Place, insert_there

OUTCOMES: Final = "gantrymq_outcomes"
INBOX: Final = "gantrymq_inbox"
DATABASE: Final = IDENTITY_ROW
CLEANED: Final = "#cleaned"
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")


class Outcome(enum.IntEnum):
    """What the column ``outcome`` says."""

    NONE = 0
    """The row is no transaction."""
    COMMITTED = 1
    ROLLED_BACK = 2
    BY_ROW = 3
    """Committed. The messages are rows in the same transaction, see ``outbox_table``. Half messages of it that brokers
    may have stored all the same, are rolled back."""


def check_name(table: object) -> str:
    """The name of a table, perhaps with its schema; raises ConfigError for one that would need quotes.

    ``object``: compiled code would refuse what a user passes in place of a text with a TypeError of its own.
    """
    if not isinstance(table, str) or NAME.fullmatch(table) is None:
        raise ConfigError(f"the table name {table!r} is not usable: letters, digits and _, perhaps schema.table")
    return table


EXACT: Final = {
    DatabaseKind.POSTGRESQL: ' COLLATE "C"',
    DatabaseKind.MYSQL: " CHARACTER SET ascii COLLATE ascii_bin",
    DatabaseKind.MARIADB: " CHARACTER SET ascii COLLATE ascii_bin",
    DatabaseKind.SQLITE: "",
}
"""Ids are compared byte by byte: that is what sorts them by time."""
WORDS: Final = {
    DatabaseKind.POSTGRESQL: "",
    DatabaseKind.MYSQL: " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    DatabaseKind.MARIADB: " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    DatabaseKind.SQLITE: "",
}
END: Final = {
    DatabaseKind.POSTGRESQL: "",
    DatabaseKind.MYSQL: " ENGINE=InnoDB",
    DatabaseKind.MARIADB: " ENGINE=InnoDB",
    DatabaseKind.SQLITE: " WITHOUT ROWID",
}


def ddl(kind: DatabaseKind, outcomes: str = OUTCOMES, inbox: str = INBOX) -> list[str]:
    """The statements that make both tables and may be repeated."""
    exact, words, end = EXACT[kind], WORDS[kind], END[kind]
    return [
        (
            f"CREATE TABLE IF NOT EXISTS {check_name(outcomes)} (\n"
            f"    id VARCHAR(32){exact} NOT NULL PRIMARY KEY,\n"
            f"    outcome SMALLINT NOT NULL,\n"
            f"    note VARCHAR(255){words} NOT NULL\n"
            f"){end}"
        ),
        *inbox_ddl(kind, inbox),
    ]


LOCK: Final = 0x67616E747279
"""The key of the lock: ``gantry`` in ASCII. Advisory locks are numbers that programs agree on."""
_LOCKS: Final = {DatabaseKind.POSTGRESQL: [f"SELECT pg_advisory_xact_lock({LOCK})"]}


def before_ddl(kind: DatabaseKind) -> list[str]:
    """What a migration executes before the statements of ``ddl``; see ``rules.creation``."""
    return _LOCKS.get(kind, [])


def inbox_ddl(kind: DatabaseKind, inbox: str = INBOX) -> list[str]:
    """The same for the inbox alone."""
    words, end = WORDS[kind], END[kind]
    index = f"{inbox.rpartition('.')[2]}_by_time"
    table = (
        f"CREATE TABLE IF NOT EXISTS {check_name(inbox)} (\n"
        f"    consumer_group VARCHAR(255){words} NOT NULL,\n"
        f"    message_id VARCHAR(255){words} NOT NULL,\n"
        f"    consumed_at BIGINT NOT NULL,\n"
        f"    PRIMARY KEY (consumer_group, message_id)"
    )
    if kind in (DatabaseKind.MYSQL, DatabaseKind.MARIADB):  # they know no CREATE INDEX IF NOT EXISTS, or not everywhere
        return [f"{table},\n    KEY {index} (consumed_at)\n){end}"]
    schema, _, bare = inbox.rpartition(".")
    if kind is DatabaseKind.SQLITE and schema:  # there the index has the schema, and not the table
        index, inbox = f"{schema}.{index}", bare
    return [f"{table}\n){end}", f"CREATE INDEX IF NOT EXISTS {index} ON {inbox} (consumed_at)"]


# Names of tables pass ``check_name``, and what differs from call to call is a parameter. So nothing in these texts is a
# stranger's, which B608 cannot know.


class OutcomeStatements:
    """The statements about outcomes for one database. Parameters are named behind each."""

    def __init__(
        self, dialect: Dialect, table: str = OUTCOMES, claim_timeout_ms: int = 2_000, place: Place | None = None
    ) -> None:
        """``claim_timeout_ms``: how long a claim waits for a local transaction that holds the same id. ``place``: where
        the table is, once that is known."""
        place = place or Place(check_name(table))
        name, written = place.table, dialect.written
        values = f"INTO {name} (id, outcome, note)"
        self.insert: Final = written(f"INSERT {values} VALUES (?, ?, ?)")
        """id, outcome, note: of a row that is no transaction"""
        self._values = values
        self._written = written
        self.decide: Final = insert_there(dialect, place)
        """What a local transaction inserts; ``parameters_of`` has its parameters"""
        self.decide_marked: Final = insert_there(dialect, place, marked=True)
        """The same with the mark of its block. PostgreSQL only; elsewhere the mark is none of the statement's"""
        self.decide_by_row: Final = insert_there(dialect, place, outcome=Outcome.BY_ROW)
        self.decide_by_row_marked: Final = insert_there(dialect, place, marked=True, outcome=Outcome.BY_ROW)
        """The same two for a transaction whose messages are rows"""
        self.find: Final = written(f"SELECT id, outcome, note FROM {name} WHERE id IN (?, '{CLEANED}', '{DATABASE}')")  # nosec B608
        """id. Rows of id, outcome, note: that of the transaction, and the two that are none, as far as there are any"""
        limit = {
            "name": name,
            "values": values,
            "ms": claim_timeout_ms,
            "seconds": max(1, round(claim_timeout_ms / 1000)),
        }
        self.before_claim: Final = _BEFORE.get(dialect.kind, "").format(**limit)
        """Without parameters; empty: not needed"""
        self.after_claim: Final = _AFTER.get(dialect.kind, "")
        self.claim: Final = written(_CLAIM[dialect.kind].format(**limit))
        """id, id, note"""
        self.move_horizon: Final = written(f"UPDATE {name} SET note = ? WHERE id = '{CLEANED}' AND note < ?")  # nosec B608
        """the horizon, twice"""
        self.cleaning: Final = BatchStatements(dialect, name, "id")
        """ids"""

    def insert_more(self, count: int) -> str:
        """id, outcome, note, of each: of transactions that are relayed together, see ``rules.relay``"""
        return self._written(f"INSERT {self._values} VALUES {', '.join(['(?, ?, ?)'] * count)}")


_UNLESS_CLEANED: Final = (
    f"SELECT CASE WHEN (SELECT note FROM {{name}} WHERE id = '{CLEANED}' LOCK IN SHARE MODE) > ? "  # nosec B608
    f"THEN '{CLEANED}' ELSE ? END, 2, ?"
)
# A claim whose row may have been deleted inserts the id #cleaned instead, which is there: that fails as a duplicate,
# and the next look finds why. It holds the row #cleaned until it ends, so no cleaning can begin meanwhile.
_CLAIM: Final = {
    # Of one statement in autocommit, the setting is local to it: one round trip, and nothing stays behind.
    DatabaseKind.POSTGRESQL: (
        "WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', '{ms}', true) AS waits), "  # nosec B608
        f"horizon AS (SELECT note FROM {{name}} WHERE id = '{CLEANED}' FOR SHARE) INSERT {{values}} "
        f"SELECT CASE WHEN (SELECT note FROM horizon) COLLATE \"C\" > ? THEN '{CLEANED}' "
        "ELSE CAST(? AS VARCHAR(32)) END, 2, CAST(? AS VARCHAR(255)) FROM patience"
    ),
    DatabaseKind.MARIADB: f"SET STATEMENT innodb_lock_wait_timeout={{seconds}} FOR INSERT {{values}} {_UNLESS_CLEANED}",
    DatabaseKind.MYSQL: f"INSERT {{values}} {_UNLESS_CLEANED}",
    DatabaseKind.SQLITE: f"INSERT {{values}} {_UNLESS_CLEANED.replace(' LOCK IN SHARE MODE', '')}",
}
_BEFORE: Final = {DatabaseKind.MYSQL: "SET SESSION innodb_lock_wait_timeout = {seconds}"}
_AFTER: Final = {DatabaseKind.MYSQL: "SET SESSION innodb_lock_wait_timeout = DEFAULT"}


class BatchStatements:
    """The deletion of old rows, batch by batch along a column that has an index. Each statement reads the rows of one
    batch, however many there are before and behind it: those that were deleted before are never passed again."""

    def __init__(self, dialect: Dialect, name: str, column: str) -> None:
        """``name``: of the table; it has passed ``check_name``."""
        written = dialect.written
        batch = f"{name} WHERE {column} >= ? AND {column} <= ?"
        # Of a table that it has no statistics of, PostgreSQL may believe that few rows are behind the beginning, and
        # read and sort all of them for each batch. Of a limit that it cannot know it expects a tenth of the rows, and
        # follows the index. The end stands outside, because a range would make the rows look even fewer.
        limit = "(SELECT CAST(? AS BIGINT))" if dialect.kind is DatabaseKind.POSTGRESQL else "?"
        self.edge: Final = written(
            f"SELECT MAX({column}) FROM (SELECT {column} FROM {name} WHERE {column} >= ? "  # nosec B608
            f"ORDER BY {column} LIMIT {limit}) AS batch WHERE {column} < ?"
        )
        """from here on, how many rows, below this one. The last value of a batch; NULL: there is none"""
        self.count: Final = written(f"SELECT COUNT(*) FROM {batch}")  # nosec B608
        """from here on, up to here. How many rows ``delete`` deletes"""
        self.delete: Final = written(f"DELETE FROM {batch}")  # nosec B608
        """from here on, up to here"""
        self.old: Final = written(
            f"SELECT COUNT(*) FROM (SELECT 1 FROM {name} WHERE {column} >= ? AND {column} < ? LIMIT ?) AS found"  # nosec B608
        )
        """from here on, below this one, how many at most. How many there are"""


class InboxStatements:
    """The statements about the inbox for one database."""

    def __init__(self, dialect: Dialect, table: str = INBOX) -> None:
        name, written = check_name(table), dialect.written
        self.kind: Final = dialect.kind
        self.insert: Final = written(f"INSERT INTO {name} (consumer_group, message_id, consumed_at) VALUES (?, ?, ?)")  # nosec B608
        """group, id of the message, ms since 1970"""
        # Where an error ends the transaction, the second row must not be one.
        unless = " ON CONFLICT DO NOTHING RETURNING 1" if dialect.kind.facts.refuses_after_error else ""
        self.take: Final = self.insert + unless
        """The same. If the row is there already, then on PostgreSQL none comes back, and elsewhere it fails as a
        duplicate. All wait for a transaction that has inserted the same and has not ended."""
        self.find: Final = written(f"SELECT consumed_at FROM {name} WHERE consumer_group = ? AND message_id = ?")  # nosec B608
        """group, id of the message"""
        self.cleaning: Final = BatchStatements(dialect, name, "consumed_at")
        """ms since 1970"""


NOW: Final = {
    DatabaseKind.POSTGRESQL: "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    DatabaseKind.SQLITE: "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    DatabaseKind.MYSQL: "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
    DatabaseKind.MARIADB: "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
}
"""The clock of the database: ms since 1970."""
