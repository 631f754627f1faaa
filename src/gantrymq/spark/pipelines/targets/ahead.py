"""What a run would change of the tables that are there already, for ``gantry pipeline check``. Changes nothing."""

from __future__ import annotations

from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.growth import TableDiffers
from gantrymq.spark.pipelines.job import DeltaTarget, IcebergTarget, ParquetTarget, PostgresqlTarget, TableTarget
from gantrymq.spark.pipelines.object_stores import disk_of
from gantrymq.spark.pipelines.projections import Columns
from gantrymq.spark.pipelines.tables import description_of
from gantrymq.spark.pipelines.targets.postgresql_connection import Databases


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
        from gantrymq.spark.pipelines.targets import parquet_growth

        there = description_of(target.path, disk_of(target.path, OsDisk()))
        growing = there and parquet_growth.lacking(target.path, there.schema, columns.ddl)
    elif isinstance(target, DeltaTarget):
        from gantrymq.spark.pipelines.targets.delta import DeltaWriter

        delta = DeltaWriter(target)
        growing = delta.lacking(columns.arrow) if delta.exists() else ""
    elif isinstance(target, IcebergTarget):
        from gantrymq.spark.pipelines.targets.iceberg import IcebergWriter

        iceberg = IcebergWriter(target)
        growing = iceberg.lacking(columns.arrow) if iceberg.exists() else ""
    elif isinstance(target, PostgresqlTarget):
        from gantrymq.spark.pipelines.targets.postgresql_growth import lacking

        databases = Databases()
        try:
            statement = lacking(target, name, columns.arrow, databases)
        finally:
            databases.close()
        return f"targets.{name}: a run begins with {statement}" if statement else ""
    return f"targets.{name}: a run gives the table {growing}" if growing else ""
