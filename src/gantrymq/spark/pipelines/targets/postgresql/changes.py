"""Changes of a table in PostgreSQL, in the transaction of the batch.

Jobs that change one table take turns, one batch after the other. Otherwise one could look for a delete that another
has not committed yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gantrymq.spark.pipelines.changes.applying import DELETES, Applying, decided
from gantrymq.spark.pipelines.changes.rows import CHANGE, DELETE, LEFT_OUT, UPSERT, upserts_of
from gantrymq.spark.pipelines.targets.postgresql.rows import Insertion

if TYPE_CHECKING:
    import pyarrow as pa

_CREATE: Final = f"""CREATE TABLE IF NOT EXISTS {DELETES} (
    target text, key text, position text NOT NULL, at_ms bigint NOT NULL, PRIMARY KEY (target, key))"""
_CREATE_INDEX: Final = f"CREATE INDEX IF NOT EXISTS {DELETES}_by_time ON {DELETES} (target, at_ms)"
_NAME: Final = """SELECT format('%%I.%%I', nspname, relname)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = %s::regclass"""
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('gantry changes of ' || %s, 0))"


@dataclass(frozen=True, slots=True)
class ChangesOfRows:
    """Upserts where the row is older, and deletes; a ``Write`` of ``PostgresqlWriter``."""

    applying: Applying
    tables: Sequence[str] = (_CREATE, _CREATE_INDEX)

    def written(self, rows: pa.Table) -> pa.Table:
        # Deletes come behind the others, and have no values but the key and the order.
        return upserts_of(rows)

    def insertion(self, connection: Any, table: Any, rows: pa.Table) -> Insertion:
        from psycopg import sql

        named = table.as_string(connection)
        ((target,),) = connection.execute(_NAME, (named,)).fetchall()
        connection.execute(_LOCK, (target,))
        deletes = PostgresqlDeletes(connection, target)
        changes = self.applying.changes
        # A delete stays among the rows; an upsert that a delete is behind has no effect.
        left = set(_keys(decided(rows, self.applying, deletes), changes.key))
        deletes.forget(self.applying.oldest_ms)
        order_by = [_Compared(name, name in _collated(connection, named)) for name in changes.order_by]
        names = [name for name in rows.column_names if name != CHANGE]
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        temporary_table = sql.SQL(
            "CREATE TEMPORARY TABLE gantry_new ON COMMIT DROP AS SELECT {},"
            " ''::text AS gantry_change, false AS gantry_late, 0::bigint AS gantry_order FROM {} WITH NO DATA"
        ).format(columns, table)
        copy = sql.SQL("COPY gantry_new ({}, gantry_change, gantry_late, gantry_order) FROM STDIN").format(columns)
        return Insertion(
            connection, _with_late(rows, left, changes.key), temporary_table, copy,
            (_delete(table, changes.key, order_by), _upsert(table, names, changes.key, order_by)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PostgresqlDeletes:
    """The lines of one table in ``gantry_deletes``. Used inside the transaction of a batch, which commits them."""

    connection: Any
    target: str
    """The table with its schema, as all jobs call it. Its number would be another one after a restore."""

    def positions(self, keys: Iterable[str]) -> Iterable[tuple[str, str]]:
        asked = f"SELECT key, position FROM {DELETES} WHERE target = %s AND key = ANY(%s)"  # nosec B608 # a constant
        return list(self.connection.execute(asked, (self.target, list(keys))).fetchall())

    def remember(self, positions: Mapping[str, str], now_ms: int) -> None:
        said = (
            f"INSERT INTO {DELETES} SELECT %s, key, position, %s "  # nosec B608 # the same
            "FROM unnest(%s::text[], %s::text[]) AS new (key, position) ON CONFLICT (target, key) "
            "DO UPDATE SET position = excluded.position, at_ms = excluded.at_ms"
        )
        self.connection.execute(said, (self.target, now_ms, list(positions), list(positions.values())))

    def forget(self, before_ms: int) -> None:
        said = f"DELETE FROM {DELETES} WHERE target = %s AND at_ms < %s"  # nosec B608 # the same
        self.connection.execute(said, (self.target, before_ms))


def _keys(rows: pa.Table, key: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in key), strict=True))


def _with_late(rows: pa.Table, left: set[tuple[Any, ...]], key: Sequence[str]) -> pa.Table:
    """Upserts that are not ``left`` are marked; the number of rows stays, by which those that are refused are named."""
    import pyarrow as pa

    late = [one not in left for one in _keys(rows, key)]
    return rows.append_column("gantry_late", pa.array(late, pa.bool_()))


def _delete(table: Any, key: Sequence[str], order_by: Sequence[_Compared]) -> Any:
    from psycopg import sql

    return sql.SQL(
        "DELETE FROM {} AS old USING gantry_new AS new WHERE {}"
        " AND (gantry_change = {} AND ({}) OR gantry_change = {} AND ({}))"
    ).format(
        table,
        sql.SQL(" AND ").join(sql.SQL("old.{0} = new.{0}").format(sql.Identifier(name)) for name in key),
        DELETE, _is_behind("old", "new", order_by, ">="), LEFT_OUT, _is_behind("old", "new", order_by, ">"),
    )  # fmt: skip


def _upsert(table: Any, names: Sequence[str], key: Sequence[str], order_by: Sequence[_Compared]) -> Any:
    from psycopg import sql

    def listed(some: Iterable[str], form: str = "{}") -> Any:
        return sql.SQL(", ").join(sql.SQL(form).format(sql.Identifier(name)) for name in some)

    others = [name for name in names if name not in key]
    action = sql.SQL("DO UPDATE SET {} WHERE {}").format(
        listed(others, "{0} = excluded.{0}"), _is_behind("old", "excluded", order_by, ">")
    )
    return sql.SQL(
        "INSERT INTO {table} AS old ({columns}) SELECT {columns} FROM gantry_new"
        " WHERE gantry_change = {upsert} AND NOT gantry_late ON CONFLICT ({key}) {action}"
    ).format(
        upsert=UPSERT, table=table, columns=listed(names), key=listed(key),
        action=action if others else sql.SQL("DO NOTHING"),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Compared:
    """A column of the order."""

    name: str
    is_text: bool

    def of(self, table: str) -> Any:
        """Texts are compared by their characters, as everywhere else, and not by the rules of a language."""
        from psycopg import sql

        return sql.Identifier(table, self.name) + sql.SQL(' COLLATE "C"' if self.is_text else "")


def _collated(connection: Any, named: str) -> set[str]:
    """The columns of a table whose values a collation compares."""
    asked = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND attcollation <> 0"
    return {name for (name,) in connection.execute(asked, (named,)).fetchall()}


def _is_behind(old: str, new: str, order_by: Sequence[_Compared], last: str) -> Any:
    """Whether the row of the table is behind the event, by the first column in which they differ. ``last``: how the
    last column must compare. A row without an order is behind every event."""
    from psycopg import sql

    parts: Any = None
    for column in reversed(order_by):
        one, other = column.of(new), column.of(old)
        sign = sql.SQL(last if parts is None else ">")
        first = sql.SQL("{one} {sign} {other} OR {other} IS NULL").format(one=one, sign=sign, other=other)
        equal = sql.SQL("({first} OR ({one} = {other} AND ({parts})))")
        parts = first if parts is None else equal.format(first=first, one=one, other=other, parts=parts)
    return parts
