"""The statements about the outbox for one database; see ``outbox_table``.

Of the rows of one ordering key only the oldest one may be taken: the head. A row of which an older one is there, taken
or not, waits. As in ``tables``: names passed ``check_name``, and what differs from call to call is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gantrymq.sql.rows.dialect import DatabaseKind, Dialect
from gantrymq.sql.rows.outbox_table import BYTES_AT_ONCE, LONGEST_MS, OUTBOX, ROWS_AT_ONCE
from gantrymq.sql.rows.place import Place
from gantrymq.sql.rows.tables import NOW, check_name

Stored = tuple[str, str, bytes, str]
"""A row that is inserted: id, topic, message, ordering key."""


def portions(rows: Sequence[Stored]) -> Iterator[Sequence[Stored]]:
    """Rows in portions of one statement each."""
    begin, size = 0, 0
    for number, row in enumerate(rows):
        if number > begin and (number - begin == ROWS_AT_ONCE or size + len(row[2]) > BYTES_AT_ONCE):
            yield rows[begin:number]
            begin, size = number, 0
        size += len(row[2])
    yield rows[begin:]


def order_columns(kind: DatabaseKind, table: str) -> str:
    """A statement with one row where the table has what ordering keys need. Without the table, or in one from before
    there were keys, it has none: it asks the catalog, so it never fails."""
    schema, _, bare = table.rpartition(".")
    if kind is DatabaseKind.POSTGRESQL:
        return (
            f"SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = to_regclass('{table}') "  # nosec B608
            "AND a.attname = 'half' AND NOT a.attisdropped"
        )
    if kind is DatabaseKind.SQLITE:
        return f"SELECT name FROM pragma_table_info('{bare}', '{schema or 'main'}') WHERE name = 'half'"  # nosec B608
    found = f"'{schema}'" if schema else "DATABASE()"
    return (
        f"SELECT c.column_name FROM information_schema.columns c WHERE c.table_schema = {found} "  # nosec B608
        f"AND c.table_name = '{bare}' AND c.column_name = 'half'"
    )


class OutboxStatements:
    """The statements about the outbox for one database."""

    def __init__(
        self, dialect: Dialect, table: str = OUTBOX, place: Place | None = None, *, ordered: bool = False
    ) -> None:
        """``place``: where the table is, once that is known. ``ordered``: it has what ordering keys need."""
        self.dialect: Final = dialect
        self.place: Final = place or Place(check_name(table))
        self.name: Final = self.place.table
        self.ordered: Final = ordered
        self._now = NOW[dialect.kind].removeprefix("SELECT ")
        self._in_hex = dialect.kind in (DatabaseKind.MYSQL, DatabaseKind.MARIADB)  # aiomysql cannot send bytes
        self.finds_first: Final = ordered and self._in_hex
        """Rows are looked for with ``find``, and then taken by their ids with ``take_found``: an UPDATE of MySQL cannot
        look at other rows of the table without locking them."""

    def insert(self, count: int) -> str:
        """For each row: id, group, topic, message, taken_by, ms."""
        return self._insert("", [""] * count)

    def insert_ordered(self, count: int) -> str:
        """For each row: id, group, topic, message, taken_by, ms, and ``key``."""
        if self.dialect.kind is not DatabaseKind.SQLITE:
            return self._insert(", order_key", [", ?"] * count)
        last = f"(SELECT COALESCE(MAX(seq), 0) FROM {self.name} WHERE order_key = ?)"  # nosec B608
        return self._insert(", order_key, seq", [f", ?, {last} + {number + 1}" for number in range(count)])

    def key(self, order_key: str) -> tuple[str, ...]:
        """The ordering key as parameters of ``insert_ordered``. On SQLite it also finds the last number of the key."""
        return (order_key,) if self.dialect.kind is not DatabaseKind.SQLITE else (order_key, order_key)

    def _insert(self, more: str, values: Sequence[str]) -> str:
        row = f"?, ?, ?, {'UNHEX(?)' if self._in_hex else '?'}, ?, {self._now} + ?"
        return self._written(
            f"INSERT INTO {self.name} (id, producer_group, topic, message, taken_by, taken_until{more}) "  # nosec B608
            f"VALUES {', '.join(f'({row}{value})' for value in values)}"
        )

    def blob(self, message: bytes) -> bytes | str:
        """A message as the parameter of ``insert``."""
        return message.hex() if self._in_hex else message

    def _free(self, of: str = "") -> str:
        """group, taken_by. ``of``: what stands in front of names of columns."""
        return (
            f"{of}producer_group = ? AND ({of}taken_by = ? OR {of}taken_until < {self._now} "
            f"OR {of}taken_until > {self._now} + {LONGEST_MS})"
        )

    @property
    def _heads(self) -> str:
        """group. The condition that no older row of the key is there."""
        if not self.ordered:
            return ""
        # All heads at once: to look for older rows of each row would take a hundred times as long where a key has many.
        heads = f"SELECT o.order_key, MIN(o.seq) FROM {self.name} o WHERE o.order_key <> '' AND o.producer_group = ?"  # nosec B608
        return f" AND (w.order_key = '' OR (w.order_key, w.seq) IN ({heads} GROUP BY o.order_key))"

    def free(self, group: str, me: str, count: int) -> tuple[str | int, ...]:
        """The parameters of ``find``, and the last ones of ``take``."""
        return (group, me, group, count) if self.ordered else (group, me, count)

    @property
    def take(self) -> str:
        """taken_by, ms, and ``free``. Takes the oldest rows that are this process's, or nobody's."""
        change = f"UPDATE {self.name} SET taken_by = ?, taken_until = {self._now} + ? WHERE"  # nosec B608
        if self._in_hex:  # the same two: they select from no table that they update
            return self._written(f"{change} {self._free()} ORDER BY id LIMIT ?")
        # Rows that another process is taking or deleting at this moment are passed over, and not waited for.
        skip = " FOR UPDATE SKIP LOCKED" if self.dialect.kind is DatabaseKind.POSTGRESQL else ""
        return self._written(
            f"{change} id IN (SELECT w.id FROM {self.name} w WHERE {self._free('w.')}{self._heads} "  # nosec B608
            f"ORDER BY w.id LIMIT ?{skip})"
        )

    @property
    def find(self) -> str:
        """``free``. The ids of the rows that ``take`` would take."""
        return self._written(
            f"SELECT w.id FROM {self.name} w WHERE {self._free('w.')}{self._heads} ORDER BY w.id LIMIT ?"  # nosec B608
        )

    def take_found(self, count: int) -> str:
        """taken_by, ms, group, taken_by, ids. Those that nobody has taken meanwhile."""
        return self._written(
            f"UPDATE {self.name} SET taken_by = ?, taken_until = {self._now} + ? "  # nosec B608
            f"WHERE {self._free()} AND id IN ({_marks(count)})"
        )

    @property
    def taken(self) -> str:
        """group, taken_by, how many. Rows of id, topic, message, and where there are keys: key, half."""
        more = ", order_key, half" if self.ordered else ""
        return self._written(
            f"SELECT id, topic, message{more} FROM {self.name} WHERE producer_group = ? AND taken_by = ? "  # nosec B608
            "ORDER BY id LIMIT ?"
        )

    def delete(self, count: int) -> str:
        """ids"""
        return self._written(f"DELETE FROM {self.name} WHERE id IN ({_marks(count)})")  # nosec B608

    @property
    def become(self) -> str:
        """half, ms, id. The row has become this half message, unless it has become one before. Nobody takes it before
        that time is over."""
        return self._written(
            f"UPDATE {self.name} SET half = ?, taken_by = '', taken_until = {self._now} + ? "  # nosec B608
            "WHERE id = ? AND half = ''"
        )

    def leave(self, count: int) -> str:
        """ms, ids. Nobody takes these rows before that time is over."""
        return self._written(
            f"UPDATE {self.name} SET taken_by = '', taken_until = {self._now} + ? "  # nosec B608
            f"WHERE id IN ({_marks(count)})"
        )

    @property
    def figures(self) -> str:
        """group, how many at most. One row: how many there are, and the smallest id."""
        return self._written(
            f"SELECT COUNT(*), MIN(id) FROM (SELECT id FROM {self.name} WHERE producer_group = ? "  # nosec B608
            "ORDER BY id LIMIT ?) AS found"
        )

    @property
    def groups(self) -> str:
        """how many at most. Rows of group, how many, the smallest id."""
        return self._written(
            f"SELECT producer_group, COUNT(*), MIN(id) FROM {self.name} "  # nosec B608
            "GROUP BY producer_group ORDER BY producer_group LIMIT ?"
        )

    @property
    def keys(self) -> str:
        """how many at most. Rows of group, key, how many, the smallest id, the half message of the oldest; the key that
        waits longest comes first."""
        return self._written(
            f"SELECT producer_group, order_key, COUNT(*), MIN(id), MAX(half) FROM {self.name} "  # nosec B608
            "WHERE order_key <> '' GROUP BY producer_group, order_key ORDER BY MIN(id) LIMIT ?"
        )

    def _written(self, text: str) -> str:
        return self.dialect.written(text)


def _marks(count: int) -> str:
    return ", ".join("?" * count)
