"""The condition ``events.valid``, evaluated so that no event can make it fail the batch.

Spark's SQL raises an error for a number that overflows or a text that is no number, and has no general way to go on.
Its Java library has one, which functions such as ``try_to_timestamp`` are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def tried(frame: DataFrame, condition: str) -> Column:
    """A struct with the value of an SQL condition on the columns of ``frame``; null where it raises an error.

    Through Spark Connect an error still fails the query: its protocol does not have Spark's expression for this.
    """
    from pyspark.sql import Column
    from pyspark.sql import functions as f

    value = f.struct(f.expr(condition).cast("boolean").alias("holds"))
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        return value
    jvm = frame.sparkSession._jvm
    sql = jvm.org.apache.spark.sql
    expression = sql.classic.ExpressionUtils.expression(value._jc)
    return Column(sql.classic.ExpressionUtils.column(sql.catalyst.expressions.TryEval(expression)))


def not_held(name: str, condition: str) -> Column:
    """Why an event is not valid; null if it is. ``name``: the column with what ``tried`` gives."""
    from pyspark.sql import functions as f

    said, holds = condition.strip(), f.col(f"{name}.holds")
    return (
        f.when(f.col(name).isNull(), f.lit(f"the condition cannot be computed: {said}"))
        .when(holds.isNull(), f.lit(f"the condition is null, so it does not hold: {said}"))
        .when(~holds, f.lit(f"the condition does not hold: {said}"))
    )
