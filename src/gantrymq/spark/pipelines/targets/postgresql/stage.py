"""Tasks copy the rows of a batch into a table beside the target, and the driver inserts them from there.

Each task copies in one transaction, and its rows have the name of this attempt. So the rows of a task that failed, or
that Spark ran twice, are not among those that the driver inserts. The server keeps no log of the table (``UNLOGGED``):
after a crash of the server it is empty, and the batch comes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.pipelines.targets.exact_values import tuples
from gantrymq.spark.pipelines.targets.postgresql.limits import Column, unfit
from gantrymq.spark.pipelines.targets.postgresql.rows import is_of_rows, said_by
from gantrymq.spark.pipelines.targets.staging import Staged

if TYPE_CHECKING:
    import pyarrow as pa

TASK_BITS: Final = 40
"""A row's place in the batch is the number of its task, and then its own."""


class Part(msgspec.Struct, frozen=True):
    """What a task says of the rows that it has copied."""

    name: str
    columns: list[str]


@dataclass(frozen=True, slots=True)
class StagingTable:
    """The table for the rows of one query and one target."""

    name: str

    @classmethod
    def of(cls, query: str, target: str) -> StagingTable:
        return cls(f"gantry_staged_{sha256(f'{query} {target}'.encode()).hexdigest()[:16]}")

    def make(self, connection: Any, table: Any) -> None:
        """Make it anew, with the columns of ``table``."""
        from psycopg import sql

        self.drop(connection)
        connection.execute(
            sql.SQL(
                "CREATE UNLOGGED TABLE {} AS SELECT *, ''::text AS gantry_part, 0::bigint AS gantry_order FROM {}"
                " WITH NO DATA"
            ).format(sql.Identifier(self.name), table)
        )

    def clear(self, connection: Any) -> None:
        from psycopg import sql

        connection.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(self.name)))

    def drop(self, connection: Any) -> None:
        from psycopg import sql

        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(self.name)))

    def insert(self, connection: Any, table: Any, parts: Sequence[Part], keys: Sequence[str]) -> None:
        """Insert the rows of these parts, or update those with their keys. The last row of a key counts, as if the
        rows came one after the other."""
        from psycopg import sql

        def listed(names: Sequence[str], form: str = "{0}") -> Any:
            return sql.SQL(", ").join(sql.SQL(form).format(sql.Identifier(name)) for name in names)

        columns = parts[0].columns
        others = [name for name in columns if name not in keys]
        action = sql.SQL("DO UPDATE SET {}").format(listed(others, "{0} = excluded.{0}"))
        statement = sql.SQL(
            "INSERT INTO {table} ({columns}) SELECT DISTINCT ON ({key}) {columns} FROM {staged}"
            " WHERE gantry_part = ANY(%s) ORDER BY {key}, gantry_order DESC ON CONFLICT ({key}) {action}"
        ).format(
            table=table, columns=listed(columns), key=listed(keys), staged=sql.Identifier(self.name),
            action=action if others else sql.SQL("DO NOTHING"),
        )  # fmt: skip
        connection.execute(statement, ([one.name for one in parts],))


@dataclass(frozen=True, slots=True)
class CopyStage:
    """Copies the rows of a task. ``dsn`` must name the server for the executors, too."""

    dsn: str
    staging: StagingTable
    columns: Sequence[Column]
    """Of the target."""

    def write(self, rows: Iterable[pa.RecordBatch], task: int) -> Iterator[Staged]:
        import psycopg

        batches = (one for one in rows if one.num_rows)
        first = next(batches, None)
        if first is None:
            return
        try:
            with psycopg.connect(self.dsn) as connection:
                yield self._copied(connection, first, batches, task)
        except _Unfit as error:
            yield Staged(0, refused=str(error))
        except psycopg.OperationalError as error:
            yield Staged(0, away=f"an executor has no connection to PostgreSQL: {str(error).strip()}")
        except psycopg.DatabaseError as error:
            if not is_of_rows(error):
                raise
            yield Staged(0, refused=said_by(error))

    def _copied(self, connection: Any, first: pa.RecordBatch, rest: Iterable[pa.RecordBatch], task: int) -> Staged:
        import pyarrow as pa
        from psycopg import sql

        part = Part(SystemRng().token(8).hex(), list(first.schema.names))
        copied = 0
        statement = sql.SQL("COPY {} ({}, gantry_part, gantry_order) FROM STDIN").format(
            sql.Identifier(self.staging.name), sql.SQL(", ").join(map(sql.Identifier, part.columns))
        )
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for batch in chain([first], rest):
                copied = self._batch(copy, pa.Table.from_batches([batch]), part, task, copied)
        connection.commit()
        return Staged(copied, msgspec.json.encode(part))

    def _batch(self, copy: Any, rows: pa.Table, part: Part, task: int, copied: int) -> int:
        found = unfit(rows, self.columns)
        if found:
            raise _Unfit(next(iter(found.values())))
        for at, row in enumerate(tuples(rows), copied):
            copy.write_row((*row, part.name, (task << TASK_BITS) + at))
        return copied + rows.num_rows


class _Unfit(Exception):
    """A row that the table cannot have."""
