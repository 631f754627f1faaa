"""Further columns of an event, which the job computes from those of the body (``events.columns``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.decoding import EVENT
from gantrymq.spark.pipelines.spark_errors import first_lines
from gantrymq.spark.pipelines.trying import tried

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OUTER, _COMPUTED = "_message_", "_computed_"


def with_columns(frame: DataFrame, columns: Mapping[str, str]) -> tuple[DataFrame, list[Column]]:
    """The event with these columns, and for each of them why an event has none; null if it has.

    Each expression sees the columns of the body and the struct ``message``. Raises ConfigError for one that Spark
    refuses.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    known = set(frame.schema[EVENT].dataType.fieldNames())
    outer = [f.col(name).alias(_OUTER + name) for name in frame.columns]
    inner = frame.select(*outer).select("*", f"{_OUTER}{EVENT}.*")
    failed: list[Column] = []
    computed: dict[str, Column] = {}
    for at, (name, sql) in enumerate(columns.items()):
        if name in known:
            raise ConfigError(f"events.columns.{name}: the body has a column with this name; give another one")
        try:
            computed[f"{_COMPUTED}{at}"] = tried(inner, f.struct(f.expr(sql).alias("value")))
            _ = inner.select(computed[f"{_COMPUTED}{at}"]).schema
        except PySparkException as error:
            raise ConfigError(f"events.columns.{name}: Spark refuses this expression: {first_lines(error)}") from error
        text = f.lit(f"the column {name} cannot be computed: {sql.strip()}")
        failed.append(f.when(f.col(EVENT).isNotNull() & f.col(f"{_COMPUTED}{at}").isNull(), text))
    inner = inner.withColumns(computed)
    frame = inner.select(*(f.col(_OUTER + name).alias(name) for name in frame.columns), *computed)
    event = f.col(EVENT)
    for at, name in enumerate(columns):
        event = event.withField(_quoted(name), f.col(f"{_COMPUTED}{at}.value"))
    return frame.withColumn(EVENT, f.when(f.col(EVENT).isNotNull(), event)), failed


def _quoted(name: str) -> str:
    return f"`{name}`"
