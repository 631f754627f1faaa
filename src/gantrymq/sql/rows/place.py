"""Where the outcome table is, and the insert that works only there.

A local transaction can be led away from the table that check-backs ask: by ``SET search_path`` or ``USE``, by a
temporary table of the same name, by a session that is bound to another database. A row that is written elsewhere is
never found, and the messages would be rolled back although their rows are committed. So two things hold:

* The table is named with its schema (PostgreSQL), its database (MySQL, MariaDB) or ``main`` (SQLite), as far as that
  is known. Nothing that moves the resolution of names can then move the row.
* The statement inserts a row only where the row ``#database`` says that this is the expected database.

| database       | how the statement refuses another table                                                    |
|----------------|--------------------------------------------------------------------------------------------|
| PostgreSQL     | the id becomes NULL, which the column refuses: also when a COMMIT stands behind the insert |
| SQLite         | the same                                                                                   |
| MySQL, MariaDB | no row is selected, so none is inserted; in some modes they would accept a NULL            |

On PostgreSQL the statement also compares the mark of the block (see ``marks``): without it, the note becomes NULL.

A transaction at the level SERIALIZABLE would meet every other one at the row ``#database``, because both read a page
that both write. So there, PostgreSQL compares the cluster and the number of the table in the catalog first, which it
does not track, and reads the row only when these are not as they were.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gantrymq.sql.rows.dialect import DatabaseKind, Dialect

IDENTITY_ROW: Final = "#database"
SETTING: Final = "gantrymq.block"
"""PostgreSQL's name of the setting that has the mark of a block."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_$ .-]{1,64}")
"""Names that can stand in every driver's statement between quotes."""
_QUOTES: Final = {
    DatabaseKind.POSTGRESQL: '"',
    DatabaseKind.SQLITE: '"',
    DatabaseKind.MYSQL: "`",
    DatabaseKind.MARIADB: "`",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the outcome table is."""

    table: str
    """Its name in statements."""
    number: str = ""
    """Of the table in PostgreSQL's catalog."""
    cluster: str = ""
    """What PostgreSQL calls the system identifier."""


def where(kind: DatabaseKind, table: str) -> str:
    """A statement that finds the schema of a table, and more (see ``read_place``). No row: it does not say."""
    schema, _, bare = table.rpartition(".")
    if kind is DatabaseKind.POSTGRESQL:
        return (
            "SELECT n.nspname, CAST(c.oid AS VARCHAR), CAST(s.system_identifier AS VARCHAR) "  # nosec B608 # checked name
            "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace, "
            f"pg_catalog.pg_control_system() s WHERE c.oid = to_regclass('{table}')"
        )
    if kind is DatabaseKind.SQLITE:
        if schema:
            return f"SELECT '{schema}', '', ''"  # nosec B608 # the name was checked
        return f"SELECT 'main', '', '' FROM main.sqlite_master WHERE type = 'table' AND name = '{bare}'"  # nosec B608
    found = f"'{schema}'" if schema else "DATABASE()"
    return (
        "SELECT t.table_schema, t.engine, e.transactions FROM information_schema.tables t "  # nosec B608 # as above
        f"JOIN information_schema.engines e ON e.engine = t.engine WHERE t.table_schema = {found} "
        f"AND t.table_name = '{bare}'"
    )


def read_place(kind: DatabaseKind, table: str, row: tuple[str, str, str] | None) -> Place:
    """``row``: what the statement of ``where`` has found."""
    if row is None or _PLAIN.fullmatch(row[0]) is None:
        return Place(table)
    quote, bare = _QUOTES[kind], table.rpartition(".")[2]
    named = f"{quote}{row[0]}{quote}.{bare}"
    if kind is DatabaseKind.POSTGRESQL:
        return Place(named, *(part if part.isdigit() else "" for part in row[1:]))
    return Place(named)


def engine_without_transactions(kind: DatabaseKind, row: tuple[str, str, str] | None) -> str | None:
    """The storage engine of the table, if its rows cannot be rolled back."""
    if kind in (DatabaseKind.MYSQL, DatabaseKind.MARIADB) and row is not None and row[2].upper() == "NO":
        return row[1]
    return None


def insert_there(dialect: Dialect, place: Place, *, marked: bool = False, outcome: int = 1) -> str:
    """The insert of an outcome. Parameters: the identity, the id, [the mark,] the note; elsewhere than on PostgreSQL
    and SQLite: the id, the note, the identity. See ``parameters_of``."""
    into = f"INSERT INTO {place.table} (id, outcome, note)"
    identity = f"(SELECT note FROM {place.table} WHERE id = '{IDENTITY_ROW}')"  # nosec B608 # the name was checked
    if dialect.kind is DatabaseKind.POSTGRESQL:
        note = "CAST(? AS VARCHAR(255))"
        if marked:
            note = f"CASE WHEN current_setting('{SETTING}', true) = ? THEN {note} END"
        here = f"{_known(place)}{identity} = ?"
        text = f"{into} VALUES (CASE WHEN {here} THEN CAST(? AS VARCHAR(32)) END, {outcome}, {note})"
    elif dialect.kind is DatabaseKind.SQLITE:
        text = f"{into} VALUES (CASE WHEN {identity} = ? THEN ? END, {outcome}, ?)"
    else:
        text = f"{into} SELECT ?, {outcome}, ? FROM {place.table} WHERE id = '{IDENTITY_ROW}' AND note = ?"  # nosec B608
    return dialect.written(text)


def _known(place: Place) -> str:
    if not (place.number and place.cluster):
        return ""
    return (
        "(current_setting('transaction_isolation') = 'serializable' "
        f"AND CAST(to_regclass('{place.table}') AS oid) = {place.number} "
        f"AND (SELECT system_identifier FROM pg_catalog.pg_control_system()) = {place.cluster}) OR "  # nosec B608
    )


def parameters_of(
    kind: DatabaseKind, transaction_id: str, identity: str, group: str, mark: str = ""
) -> tuple[str, ...]:
    """In the order of ``insert_there``."""
    if kind in (DatabaseKind.MYSQL, DatabaseKind.MARIADB):
        return transaction_id, group, identity
    if kind is DatabaseKind.POSTGRESQL and mark:
        return identity, transaction_id, mark, group
    return identity, transaction_id, group
