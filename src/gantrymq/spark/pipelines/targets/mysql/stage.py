"""Tasks insert the rows of a batch into a table beside the target, and the driver inserts them from there.

Each task inserts in one transaction, and its rows have the name of this attempt. So the rows of a task that failed, or
that Spark ran twice, are not among those that the driver inserts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.pipelines.describe.mysql_address import MysqlAddress
from gantrymq.spark.pipelines.targets.exact_values import tuples
from gantrymq.spark.pipelines.targets.mysql.limits import Column, unfit
from gantrymq.spark.pipelines.targets.mysql.server import MysqlSession, column, is_of_rows, quoted, said_by
from gantrymq.spark.pipelines.targets.staging import Staged

if TYPE_CHECKING:
    import pyarrow as pa

TASK_BITS: Final = 40
"""A row's place in the batch is the number of its task, and then its own."""
_OWN: Final = (
    "gantry_part char(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', "
    "gantry_order bigint NOT NULL DEFAULT 0, KEY (gantry_part)"
)


class Part(msgspec.Struct, frozen=True):
    """What a task says of the rows that it has inserted."""

    name: str
    columns: list[str]


@dataclass(frozen=True, slots=True)
class StagingTable:
    """The table for the rows of one query and one target."""

    name: str

    @classmethod
    def of(cls, query: str, target: str) -> StagingTable:
        return cls(f"gantry_staged_{sha256(f'{query} {target}'.encode()).hexdigest()[:16]}")

    def make(self, session: MysqlSession, table: str, columns: Sequence[str]) -> None:
        """Make it anew, with these columns of ``table``."""
        self.drop(session)
        session.execute(
            f"CREATE TABLE {quoted(self.name)} ({_OWN}) ENGINE=InnoDB "
            f"AS SELECT {', '.join(map(column, columns))} FROM {quoted(table)} LIMIT 0"  # nosec B608 # quoted names
        )

    def clear(self, session: MysqlSession) -> None:
        session.execute(f"TRUNCATE TABLE {quoted(self.name)}")

    def drop(self, session: MysqlSession) -> None:
        session.execute(f"DROP TABLE IF EXISTS {quoted(self.name)}")

    def insert(self, session: MysqlSession, table: str, parts: Sequence[Part], keys: Sequence[str]) -> None:
        """Insert the rows of these parts, or update those with their keys. The last row of a key counts, as if the
        rows came one after the other."""
        columns = parts[0].columns
        listed, marks = ", ".join(map(column, columns)), ", ".join(["%s"] * len(parts))
        session.execute(
            f"INSERT INTO {quoted(table)} ({listed}) SELECT {listed} FROM {quoted(self.name)} "  # nosec B608 # the same
            f"WHERE gantry_part IN ({marks}) ORDER BY gantry_order {on_equal_key(columns, keys)}",
            [one.name for one in parts],
        )


def on_equal_key(columns: Sequence[str], keys: Sequence[str]) -> str:
    """What an INSERT does with a row whose key is there."""
    others = [name for name in columns if name not in keys] or list(keys[:1])
    return "ON DUPLICATE KEY UPDATE " + ", ".join(f"{column(name)} = VALUES({column(name)})" for name in others)


@dataclass(frozen=True, slots=True)
class InsertStage:
    """Inserts the rows of a task. ``address`` must name the server for the executors, too."""

    address: MysqlAddress
    staging: StagingTable
    columns: Sequence[Column]
    """Of the target."""

    def write(self, rows: Iterable[pa.RecordBatch], task: int) -> Iterator[Staged]:
        import pyarrow as pa
        import pymysql

        part, inserted, session = "", 0, None
        names: list[str] = []
        try:
            for batch in rows:
                if not batch.num_rows:
                    continue
                table = pa.Table.from_batches([batch])
                found = unfit(table, self.columns)
                if found:
                    yield Staged(0, refused=next(iter(found.values())))
                    return
                if session is None:
                    part, names = SystemRng().token(8).hex(), list(table.column_names)
                    session = MysqlSession(self.address)
                    session.execute("BEGIN")
                self._insert(session, part, table, (task << TASK_BITS) + inserted)
                inserted += batch.num_rows
            if session is not None:
                session.execute("COMMIT")
                yield Staged(inserted, msgspec.json.encode(Part(part, names)))
        except pymysql.err.Error as error:
            if is_of_rows(error):
                yield Staged(0, refused=said_by(error))
            elif session is None or session.closed:
                yield Staged(0, away=f"an executor has no connection to MySQL: {error}")
            else:
                raise
        finally:
            if session is not None:
                session.close()

    def _insert(self, session: MysqlSession, part: str, rows: pa.Table, first: int) -> None:
        listed = ", ".join(map(column, rows.column_names))
        marks = ", ".join(["%s"] * (len(rows.column_names) + 2))
        session.insert(
            f"INSERT INTO {quoted(self.staging.name)} ({listed}, gantry_part, gantry_order) "  # nosec B608 # the same
            f"VALUES ({marks})",
            ((*row, part, at) for at, row in enumerate(tuples(rows), first)),
        )
