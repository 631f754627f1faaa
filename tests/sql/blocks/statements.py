"""Statements that a program executes in a block, by name: what each database is told, and what that does to a unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BEHIND, PROGRAM, UNDONE, NOTHING = "behind", "program", "undone", ""
"""The database commits what the block did so far, implicitly; the program says so; it rolls that back; neither."""
TENANT: Final = "tenant1"


@dataclass(frozen=True, slots=True)
class Statement:
    texts: tuple[str, ...]
    effect: str = NOTHING
    stays: bool = False
    """It changes the connection for longer than the block."""
    table: str = ""
    """Where the rows of later units go."""


def _one(text: str, effect: str = NOTHING, *, stays: bool = False) -> Statement:
    return Statement((text,), effect, stays)


_SHADOW: Final = "CREATE {} TABLE gantrymq_outcomes (id VARCHAR(32) PRIMARY KEY, outcome SMALLINT, note VARCHAR(255))"
STATEMENTS: Final[dict[str, dict[str, Statement]]] = {
    "postgresql": {
        "select": _one("SELECT 1"),
        "ddl": _one("CREATE TABLE IF NOT EXISTS scratch (id INTEGER)"),
        "truncate": _one("TRUNCATE scratch"),
        "lock": _one("LOCK TABLE scratch"),
        "begin": _one("BEGIN"),
        "commit": _one("COMMIT", PROGRAM),
        "rollback": _one("ROLLBACK", UNDONE),
        "commit_chain": _one("COMMIT AND CHAIN", PROGRAM),
        "rollback_chain": _one("ROLLBACK AND CHAIN", UNDONE),
        "commit_begin": Statement(("COMMIT", "BEGIN"), PROGRAM),
        "rollback_begin": Statement(("ROLLBACK", "BEGIN"), UNDONE),
        "schema_local": _one(f"SET LOCAL search_path TO {TENANT}"),
        "schema": _one(f"SET search_path TO {TENANT}", stays=True),
        "shadow": _one(_SHADOW.format("TEMPORARY"), stays=True),
        "deferred": _one("INSERT INTO children VALUES (1, -1)"),
        "read_only": _one("SET TRANSACTION READ ONLY"),
    },
    "mariadb": {
        "select": _one("SELECT 1"),
        "ddl": _one("CREATE TABLE IF NOT EXISTS scratch (id INTEGER)", BEHIND),
        "truncate": _one("TRUNCATE TABLE scratch", BEHIND),
        "alter": _one("ALTER TABLE scratch COMMENT 'again'", BEHIND),
        "analyze": _one("ANALYZE TABLE scratch", BEHIND),
        "drop": _one("DROP TABLE IF EXISTS never_there", BEHIND),
        "lock": Statement(("LOCK TABLES scratch WRITE", "UNLOCK TABLES"), BEHIND),
        "begin": _one("BEGIN", BEHIND),
        "start": _one("START TRANSACTION", BEHIND),
        "commit": _one("COMMIT", PROGRAM),
        "rollback": _one("ROLLBACK", UNDONE),
        "commit_chain": _one("COMMIT AND CHAIN", PROGRAM),
        "rollback_chain": _one("ROLLBACK AND CHAIN", UNDONE),
        "autocommit": _one("SET autocommit = 1", PROGRAM, stays=True),
        "temporary": _one("CREATE TEMPORARY TABLE IF NOT EXISTS passing (id INTEGER)", stays=True),
        "schema": _one(f"USE {{name}}_{TENANT}", stays=True),
        "shadow": _one(_SHADOW.format("TEMPORARY"), stays=True),
    },
    "sqlite": {
        "select": _one("SELECT 1"),
        "ddl": _one("CREATE TABLE IF NOT EXISTS scratch (id INTEGER)"),
        "begin": _one("BEGIN"),
        "commit": _one("COMMIT", PROGRAM),
        "end": _one("END", PROGRAM),
        "rollback": _one("ROLLBACK", UNDONE),
        "commit_begin": Statement(("COMMIT", "BEGIN"), PROGRAM),
        "rollback_begin": Statement(("ROLLBACK", "BEGIN"), UNDONE),
        "attach": Statement((f"ATTACH DATABASE '{{name}}.{TENANT}' AS {TENANT}",), stays=True, table=f"{TENANT}.items"),
        "shadow": _one(_SHADOW.format("TEMPORARY"), stays=True),
        "deferred": _one("INSERT INTO children VALUES (1, -1)"),
    },
}
FAILURES: Final = {
    "duplicate": "INSERT INTO items VALUES (0)",
    "syntax": "SELEKT 1",
    "missing": "INSERT INTO no_such_table VALUES (1)",
}
"""Statements that fail. The row 0 is always there."""
SCHEMA: Final[dict[str, tuple[str, ...]]] = {
    "postgresql": (
        "CREATE TABLE items (id INTEGER PRIMARY KEY)",
        "CREATE TABLE scratch (id INTEGER)",
        "CREATE TABLE children (id INTEGER, parent INTEGER REFERENCES items (id) DEFERRABLE INITIALLY DEFERRED)",
    ),
    "mariadb": (
        "CREATE TABLE items (id INTEGER PRIMARY KEY) ENGINE=InnoDB",
        "CREATE TABLE items_myisam (id INTEGER PRIMARY KEY) ENGINE=MyISAM",
        "CREATE TABLE scratch (id INTEGER) ENGINE=InnoDB",
        "CREATE TABLE stock (id INTEGER PRIMARY KEY, n INTEGER NOT NULL) ENGINE=InnoDB",
        "INSERT INTO stock SELECT seq, 0 FROM seq_1_to_60",
    ),
    "sqlite": (
        "CREATE TABLE items (id INTEGER PRIMARY KEY)",
        "CREATE TABLE scratch (id INTEGER)",
        "CREATE TABLE children (id INTEGER, parent INTEGER REFERENCES items (id) DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TRIGGER guard BEFORE INSERT ON scratch WHEN NEW.id = -1 BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
    ),
}
"""The tables of a program. Ours come with ``create_table``."""
