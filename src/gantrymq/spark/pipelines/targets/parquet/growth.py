"""A Parquet table grows to the columns of a job. Its files never change: they are read with the columns that the table
has by now. A Spark session must be there, which reads the columns as they are written in Spark's language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gantrymq.spark.pipelines.targets.growth import Growth, Widening, growth
from gantrymq.spark.pipelines.targets.port import ddl_of

if TYPE_CHECKING:
    import pyarrow as pa


def lacking(path: str, table: str, wanted: str) -> Growth:
    """What a table lacks; both schemas are DDL. Raises TableDiffers for types to which it cannot grow."""
    return growth(_arrow(_columns(table)), _arrow(_columns(wanted)), Widening(), path)


def grown(path: str, table: str, wanted: str) -> str:
    """The columns of the table when it has grown. Raises TableDiffers."""
    growing = Growth((), {}) if table == wanted else lacking(path, table, wanted)
    if not growing:
        return table
    from pyspark.sql.types import StructType

    new = {field.name: field for field in _columns(wanted).fields}
    columns = [new[field.name] if field.name in growing.widened else field for field in _columns(table).fields]
    return ddl_of(StructType([*columns, *(new[field.name] for field in growing.added)]))


def _columns(ddl: str) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.active().createDataFrame([], ddl).schema


def _arrow(columns: Any) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(columns, timezone="UTC")
