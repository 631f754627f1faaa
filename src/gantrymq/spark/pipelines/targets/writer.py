"""What a job asks of each of its targets, and which module answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from gantrymq.runtime.disk import Disk
from gantrymq.spark.pipelines.job import (
    DeltaTarget,
    IcebergTarget,
    ParquetTarget,
    PostgresqlTarget,
    TableTarget,
    Target,
    TopicTarget,
)
from gantrymq.spark.pipelines.object_stores import disk_of
from gantrymq.spark.pipelines.projections import Columns
from gantrymq.spark.pipelines.tables import description_of
from gantrymq.spark.pipelines.targets.postgresql_connection import Databases
from gantrymq.spark.pipelines.targets.staging import Stage, Staged

if TYPE_CHECKING:
    import pyarrow as pa


class Writer(Protocol):
    """One target while a job runs. A batch is in it whole and once, also after a crash in the middle of any call."""

    def has(self, query: str, batch: int) -> bool:
        """Whether the batch is known to be in the target. A batch without rows may be unknown."""

    def stage(self, query: str, batch: int) -> Stage:
        """What tasks of Spark do with the rows of a batch. Called for each attempt."""

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        """Whether the target can have these rows, as far as their values matter. Reasons for which it could have no
        row at all are errors. If it can, ``commit`` is called next with the same."""

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        """Make the staged rows of a batch visible, unless they are. Returns how many were added. They are durable
        then."""

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """The rows that the target cannot have because of their values: by index, with the reason. Asked only for a
        batch that was not accepted, and for parts of it."""

    def others(self, query: str) -> Mapping[str, int]:
        """Who else has written here, each with its last batch; of nobody when ``add`` finds rows with an equal key by
        itself. Rows of which nobody knows who wrote them are those of ``NOBODY``."""

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        """Those of ``keys`` that rows of others have. Where a table does not say who wrote a row, its own are among
        them. Memory is needed for the keys of the batch only. None: there are none."""

    def rows(self) -> int:
        """The number of rows in the target."""

    def finish(self) -> None:
        """The run ends."""

    def close(self) -> None:
        """Let other programs write."""


def is_there(name: str, target: TableTarget, disk: Disk) -> bool:
    """Whether the table of a target is the one that an earlier run has made. That of PostgreSQL is made by its owner,
    and the first run has noted it in the database. Raises ConfigError for a table that its owner has not made."""
    if isinstance(target, ParquetTarget):
        return description_of(target.path, disk_of(target.path, disk)) is not None
    if isinstance(target, DeltaTarget):
        from gantrymq.spark.pipelines.targets.delta import DeltaWriter

        return DeltaWriter(target).exists()
    if isinstance(target, IcebergTarget):
        from gantrymq.spark.pipelines.targets.iceberg import IcebergWriter

        return IcebergWriter(target).exists()
    from gantrymq.spark.pipelines.targets.postgresql import PostgresqlWriter, Upserts

    writer = PostgresqlWriter(target, name, Databases(), Upserts(target.key))
    try:
        return writer.exists()
    finally:
        writer.close()


def place_of(target: TableTarget) -> str:
    """Where a target is, for people."""
    return target.path if isinstance(target, ParquetTarget | DeltaTarget) else target.table


def open_writer(
    target: Target, name: str, columns: Columns, source: Mapping[str, str], disk: Disk, databases: Databases
) -> Writer:
    """Open a target for writing; ``columns``: of its rows; ``source``: the options of the job's source;
    ``databases``: those that the targets of the job share.

    Raises ConfigError, which says what to install, when its library is missing, and StoreLocked when another job writes
    there.
    """
    # Imported here: each module needs a library of its own.
    if isinstance(target, ParquetTarget):
        from gantrymq.spark.pipelines.targets.parquet import ParquetWriter

        return ParquetWriter(target, columns.ddl, disk)
    if isinstance(target, DeltaTarget):
        from gantrymq.spark.pipelines.targets.delta import DeltaWriter

        delta = DeltaWriter(target)
        delta.make(columns.arrow)
        return delta
    if isinstance(target, IcebergTarget):
        from gantrymq.spark.pipelines.targets.iceberg import IcebergWriter

        iceberg = IcebergWriter(target)
        iceberg.make(columns.arrow)
        return iceberg
    if isinstance(target, PostgresqlTarget):
        from gantrymq.spark.pipelines.targets.postgresql import PostgresqlWriter, Upserts
        from gantrymq.spark.pipelines.targets.postgresql_growth import grow

        grow(target, name, columns.arrow, databases)
        rows = PostgresqlWriter(target, name, databases, Upserts(target.key))
        rows.make()
        return rows
    assert_topic: TopicTarget = target
    from gantrymq.spark.pipelines.targets.topic import TopicWriter

    return TopicWriter(assert_topic, source)
