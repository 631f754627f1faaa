"""The target ``mysql``: rows are staged in the server, and inserted or updated by their key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.describe.mysql_address import MysqlAddress
from gantrymq.spark.pipelines.job import MysqlTarget
from gantrymq.spark.pipelines.targets.databases import Databases, Part
from gantrymq.spark.pipelines.targets.growth import TableDiffers
from gantrymq.spark.pipelines.targets.mysql.limits import unfit, unlike
from gantrymq.spark.pipelines.targets.mysql.rows import known_keys, refused_rows
from gantrymq.spark.pipelines.targets.mysql.server import MysqlServer, is_of_rows, quoted
from gantrymq.spark.pipelines.targets.mysql.stage import InsertStage, StagingTable
from gantrymq.spark.pipelines.targets.mysql.stage import Part as InsertedPart
from gantrymq.spark.pipelines.targets.mysql.table import columns_of, wrong_keys
from gantrymq.spark.pipelines.targets.port import NOBODY, RowRefused
from gantrymq.spark.pipelines.targets.staging import Stage, Staged, TargetAway, refusal_in

if TYPE_CHECKING:
    import pyarrow as pa

BATCHES: Final = "gantry_batches"
NOTED: Final = 0
"""The batch of ``NOBODY`` in the line that notes a table."""
_NAME: Final = "varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_CREATE: Final = (
    f"CREATE TABLE IF NOT EXISTS {BATCHES} (query {_NAME}, target {_NAME}, batch bigint NOT NULL, "
    "PRIMARY KEY (query, target)) ENGINE=InnoDB"
)
_REMEMBER: Final = (
    f"INSERT INTO {BATCHES} VALUES (%s, %s, %s) "  # nosec B608 # the name is a constant
    "ON DUPLICATE KEY UPDATE batch = VALUES(batch)"
)


class MysqlWriter:
    """Writes a batch in one database transaction, together with its number in the table ``gantry_batches``."""

    def __init__(self, target: MysqlTarget, name: str, databases: Databases) -> None:
        try:
            import pymysql
        except ImportError as error:
            raise ConfigError(
                f"the target mysql needs the package pymysql; run: pip install 'gantrymq[mysql]' ({error})"
            ) from error
        self._target = target
        self._name = name
        self._server = MysqlServer(MysqlAddress.of(target.url))
        self._target_id = f"{name}: {target.table}"
        """A target that writes to another table is another one, also in a job that has a copy of the checkpoint."""
        self._connected = databases.at(self._server, name)
        self._names: list[str] = []
        """The columns of the job, once the table is made."""
        self._staging: StagingTable | None = None
        """The one that this run has made."""
        self._ready: Sequence[Staged] | None = None
        """What tasks have staged, and the transaction has."""
        try:
            with self._connected() as session:
                # Raises the server's error when the table does not exist or must not be read.
                session.execute(f"SELECT 1 FROM {quoted(target.table)} LIMIT 0")  # nosec B608 # a quoted name
                self._columns = columns_of(session, target.table)
        except pymysql.err.Error as error:
            raise ConfigError(f"targets.{name}: MySQL refuses: {error}; check url and table") from error

    def exists(self) -> bool:
        """Whether a run has noted the table. In a database that was made anew, none has."""
        with self._connected() as session:
            session.execute(_CREATE)
        return self.has(NOBODY, NOTED)

    def check(self, schema: pa.Schema) -> None:
        """Raise TableDiffers if the table cannot have the rows of the job as they are."""
        wrong = list(unlike(schema, self._columns))
        with self._connected() as session:
            wrong += wrong_keys(session, self._target.table, self._columns, self._target.key)
        if wrong:
            raise TableDiffers("\n".join(f"targets.{self._name}: {one}" for one in wrong))

    def make(self, schema: pa.Schema) -> None:
        """Note the table, which its owner has made. Raises TableDiffers."""
        self.check(schema)
        self._names = list(schema.names)
        with self._connected() as session:
            session.execute(_CREATE)
            session.execute(_REMEMBER, (NOBODY, self._target_id, NOTED))

    def has(self, query: str, batch: int) -> bool:
        asked = f"SELECT batch FROM {BATCHES} WHERE query = %s AND target = %s"  # nosec B608 # the same
        with self._connected() as session:
            found = session.execute(asked, (query, self._target_id))
        return bool(found) and found[0][0] >= batch

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """What the types of the columns cannot have; and if nothing is wrong with those, what the server refuses."""
        self._connected.undo(self._name)
        if not len(rows) or self.has(query, batch):
            return {}
        found = unfit(rows, self._columns)
        if found:
            return found
        self._connected.begin(self._name)
        with self._connected() as session:
            found = refused_rows(session, self._target.table, rows, self._target.key, 0, len(rows))
        self._connected.undo(self._name)
        return found

    def stage(self, query: str, batch: int) -> Stage:
        import pymysql

        table = StagingTable.of(query, self._target_id)
        try:
            # Not in the transaction of the batch, which may be open for another target: to make a table would end it.
            session = self._server.connect()
        except pymysql.err.Error as error:
            raise TargetAway(f"targets.{self._name}: MySQL cannot be reached: {error}") from error
        try:
            if table == self._staging:
                table.clear(session)
            else:
                table.make(session, self._target.table, self._names)
        except pymysql.err.OperationalError as error:
            if not session.closed and not self._server.gave_way(error):
                raise
            raise TargetAway(f"targets.{self._name}: no place for rows could be made: {error}") from error
        finally:
            session.close()
        self._staging = table
        return InsertStage(self._server.address, table, self._columns)

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        """Those that it accepts are in the open transaction when this returns."""
        import pymysql

        self._ready = None
        self._connected.undo(self._name)
        if refusal_in(staged) is not None:
            return False
        if not staged or self.has(query, batch):
            return True
        parts = [msgspec.json.decode(one.content, type=InsertedPart) for one in staged]
        self._connected.begin(self._name)
        try:
            with self._connected() as session:
                StagingTable.of(query, self._target_id).insert(session, self._target.table, parts, self._target.key)
                session.execute(_REMEMBER, (query, self._target_id, batch))
        except pymysql.err.Error as error:
            if not is_of_rows(error):
                raise
            self._connected.undo(self._name)
            return False
        self._ready = staged
        return True

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        if self._ready is not staged or self._connected.part(self._name) is Part.NONE:
            if not self.accepts(query, batch, staged):
                raise RowRefused(f"targets.{self._name}: a row of batch {batch} is refused: {refusal_in(staged)}")
            if self._ready is None:
                return 0
        if self._connected.part(self._name) is Part.OPEN:
            self._connected.commit()
        self._ready = None
        return sum(one.rows for one in staged)

    def others(self, query: str) -> Mapping[str, int]:
        asked = f"SELECT query, batch FROM {BATCHES} WHERE target = %s AND query NOT IN (%s, %s)"  # nosec B608 # the same
        with self._connected() as session:
            return {name: batch for name, batch in session.execute(asked, (self._target_id, query, NOBODY))}

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        # Of a table with another key the newest event of a row counts, so each of them must come in its turn.
        if not set(keys.column_names) <= set(self._target.key):
            return None
        with self._connected() as session:
            return known_keys(session, self._target.table, self._columns, keys)

    def rows(self) -> int:
        with self._connected() as session:
            counted: Any = session.execute(f"SELECT count(*) FROM {quoted(self._target.table)}")  # nosec B608 # the same
        return int(counted[0][0])

    def finish(self) -> None:
        """Every batch is committed already."""

    def close(self) -> None:
        import pymysql

        if self._staging is not None:
            with suppress(pymysql.err.Error, TargetAway), self._connected() as session:
                # To drop a table commits what is open.
                self._connected.undo_all()
                self._staging.drop(session)
        self._connected.close()
