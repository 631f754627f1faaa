"""Which module answers for a target of a job: who writes its rows or applies its changes, and what a run would change
of its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.spark.pipelines.changes.applying import Applying
from gantrymq.spark.pipelines.describe.job_rules import NOT_CHANGED, ONLY_ADDED
from gantrymq.spark.pipelines.job import (
    DeltaTarget,
    IcebergTarget,
    MysqlTarget,
    ParquetTarget,
    PostgresqlTarget,
    TableTarget,
    Target,
    TopicTarget,
)
from gantrymq.spark.pipelines.targets.databases import Databases
from gantrymq.spark.pipelines.targets.growth import TableDiffers
from gantrymq.spark.pipelines.targets.object_stores import disk_of
from gantrymq.spark.pipelines.targets.parquet.tables import description_of
from gantrymq.spark.pipelines.targets.port import Columns, Writer

if TYPE_CHECKING:
    from gantrymq.spark.pipelines.targets.mysql.writer import MysqlWriter
    from gantrymq.spark.pipelines.targets.postgresql.writer import PostgresqlWriter


def is_there(name: str, target: TableTarget, disk: Disk) -> bool:
    """Whether the table of a target is the one that an earlier run has made. That of PostgreSQL is made by its owner,
    and the first run has noted it in the database. Raises ConfigError for a table that its owner has not made."""
    if isinstance(target, ParquetTarget):
        return description_of(target.path, disk_of(target.path, disk)) is not None
    if isinstance(target, DeltaTarget):
        from gantrymq.spark.pipelines.targets.delta.writer import DeltaWriter

        return DeltaWriter(target).exists()
    if isinstance(target, IcebergTarget):
        from gantrymq.spark.pipelines.targets.iceberg.writer import IcebergWriter

        return IcebergWriter(target).exists()
    writer = _in_database(target, name, Databases())
    try:
        return writer.exists()
    finally:
        writer.close()


def _in_database(
    target: PostgresqlTarget | MysqlTarget, name: str, databases: Databases
) -> PostgresqlWriter | MysqlWriter:
    if isinstance(target, MysqlTarget):
        from gantrymq.spark.pipelines.targets.mysql.writer import MysqlWriter

        return MysqlWriter(target, name, databases)
    from gantrymq.spark.pipelines.targets.postgresql.writer import PostgresqlWriter, Upserts

    return PostgresqlWriter(target, name, databases, Upserts(target.key))


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
        from gantrymq.spark.pipelines.targets.parquet.writer import ParquetWriter

        return ParquetWriter(target, columns.ddl, disk)
    if isinstance(target, DeltaTarget):
        from gantrymq.spark.pipelines.targets.delta.writer import DeltaWriter

        delta = DeltaWriter(target)
        delta.make(columns.arrow)
        return delta
    if isinstance(target, IcebergTarget):
        from gantrymq.spark.pipelines.targets.iceberg.writer import IcebergWriter

        iceberg = IcebergWriter(target)
        iceberg.make(columns.arrow)
        return iceberg
    if isinstance(target, PostgresqlTarget):
        from gantrymq.spark.pipelines.targets.postgresql.growth import grow
        from gantrymq.spark.pipelines.targets.postgresql.writer import PostgresqlWriter, Upserts

        grow(target, name, columns.arrow, databases)
        rows = PostgresqlWriter(target, name, databases, Upserts(target.key))
        rows.make()
        return rows
    if isinstance(target, MysqlTarget):
        from gantrymq.spark.pipelines.targets.mysql.writer import MysqlWriter

        mysql = MysqlWriter(target, name, databases)
        mysql.make(columns.arrow)
        return mysql
    assert_topic: TopicTarget = target
    from gantrymq.spark.pipelines.targets.topic import TopicWriter

    return TopicWriter(assert_topic, source)


def open_change_writer(
    target: TableTarget, name: str, columns: Columns, applying: Applying, databases: Databases
) -> Writer:
    """Open a target whose rows change. Its batches have the column ``CHANGE`` behind those of the target.

    Raises ConfigError for a table whose rows cannot change, and when its library is missing.
    """
    if isinstance(target, ParquetTarget | MysqlTarget):
        raise ConfigError(f"targets.{name}.type: {ONLY_ADDED if isinstance(target, ParquetTarget) else NOT_CHANGED}")
    # Imported here: each module needs a library of its own.
    if isinstance(target, DeltaTarget):
        from gantrymq.spark.pipelines.targets.delta.changes import DeltaChanges

        delta = DeltaChanges(target, applying)
        delta.make(columns.arrow)
        return delta
    if isinstance(target, IcebergTarget):
        from gantrymq.spark.pipelines.targets.iceberg.changes import IcebergChanges

        iceberg = IcebergChanges(target, applying)
        iceberg.make(columns.arrow)
        return iceberg
    from gantrymq.spark.pipelines.targets.postgresql.changes import ChangesOfRows
    from gantrymq.spark.pipelines.targets.postgresql.growth import grow
    from gantrymq.spark.pipelines.targets.postgresql.writer import PostgresqlWriter

    grow(target, name, columns.arrow, databases)
    rows = PostgresqlWriter(target, name, databases, ChangesOfRows(applying))
    rows.make()
    return rows


def change_of(name: str, target: TableTarget, columns: Columns) -> str:
    """What a run would do to the table, or why nobody can say it now; empty if it would do nothing.

    Raises TableDiffers for a table that cannot have the rows of the job.
    """
    try:
        return _lacking(name, target, columns)
    except (TableDiffers, ImportError):
        raise
    # A server or a catalog that is away is no fault of the job file, and each library has its own errors for it.
    except Exception as error:  # noqa: BLE001
        said = str(error).removeprefix(f"targets.{name}: ").strip().splitlines() or [type(error).__name__]
        return f"targets.{name}: its table cannot be looked at now: {said[0]}"


def _lacking(name: str, target: TableTarget, columns: Columns) -> str:
    growing: object = ""
    if isinstance(target, ParquetTarget):
        from gantrymq.spark.pipelines.targets.parquet import writer as parquet

        there = description_of(target.path, disk_of(target.path, OsDisk()))
        growing = there and parquet.lacking(target.path, there.schema, columns.ddl)
    elif isinstance(target, DeltaTarget):
        from gantrymq.spark.pipelines.targets.delta.writer import DeltaWriter

        delta = DeltaWriter(target)
        growing = delta.lacking(columns.arrow) if delta.exists() else ""
    elif isinstance(target, IcebergTarget):
        from gantrymq.spark.pipelines.targets.iceberg.writer import IcebergWriter

        iceberg = IcebergWriter(target)
        growing = iceberg.lacking(columns.arrow) if iceberg.exists() else ""
    elif isinstance(target, PostgresqlTarget):
        from gantrymq.spark.pipelines.targets.postgresql.growth import lacking

        databases = Databases()
        try:
            statement = lacking(target, name, columns.arrow, databases)
        finally:
            databases.close()
        return f"targets.{name}: a run begins with {statement}" if statement else ""
    elif isinstance(target, MysqlTarget):
        from gantrymq.spark.pipelines.targets.mysql.writer import MysqlWriter

        mysql = MysqlWriter(target, name, Databases())
        try:
            mysql.check(columns.arrow)
        finally:
            mysql.close()
    return f"targets.{name}: a run gives the table {growing}" if growing else ""
