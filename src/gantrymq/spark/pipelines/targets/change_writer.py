"""Which module applies the changes of a job to a target."""

from __future__ import annotations

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.change_rules import ONLY_ADDED
from gantrymq.spark.pipelines.changes.applying import Applying
from gantrymq.spark.pipelines.job import DeltaTarget, IcebergTarget, ParquetTarget, TableTarget
from gantrymq.spark.pipelines.projections import Columns
from gantrymq.spark.pipelines.targets.postgresql_connection import Databases
from gantrymq.spark.pipelines.targets.writer import Writer


def open_change_writer(
    target: TableTarget, name: str, columns: Columns, applying: Applying, databases: Databases
) -> Writer:
    """Open a target whose rows change. Its batches have the column ``CHANGE`` behind those of the target.

    Raises ConfigError for a table whose rows cannot change, and when its library is missing.
    """
    if isinstance(target, ParquetTarget):
        raise ConfigError(f"targets.{name}.type: {ONLY_ADDED}")
    # Imported here: each module needs a library of its own.
    if isinstance(target, DeltaTarget):
        from gantrymq.spark.pipelines.targets.delta_changes import DeltaChanges

        delta = DeltaChanges(target, applying)
        delta.make(columns.arrow)
        return delta
    if isinstance(target, IcebergTarget):
        from gantrymq.spark.pipelines.targets.iceberg_changes import IcebergChanges

        iceberg = IcebergChanges(target, applying)
        iceberg.make(columns.arrow)
        return iceberg
    from gantrymq.spark.pipelines.targets.postgresql import PostgresqlWriter
    from gantrymq.spark.pipelines.targets.postgresql_changes import ChangesOfRows
    from gantrymq.spark.pipelines.targets.postgresql_growth import grow

    grow(target, name, columns.arrow, databases)
    rows = PostgresqlWriter(target, name, databases, ChangesOfRows(applying))
    rows.make()
    return rows
