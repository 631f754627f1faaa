"""Expressions whose errors are null instead of the end of the batch.

Spark's SQL raises an error for a number that overflows or a text that is no number, and has no general way to go on.
Its Java library has one, which functions such as ``try_to_timestamp`` are made of. Spark Connect's protocol does not
have it, but the functions. All of this needs ``TRY_CONF``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FAILS = "fails"
TRY_CONF: Final = {"spark.sql.subexpressionElimination.enabled": "false"}
"""Spark computes what occurs twice in an expression before it, and so outside of what would have caught the error: one
``x`` in ``cast(a AS int) > 0 AND cast(a AS int) < 9`` ended every batch."""


def tried_truth(condition: Column, name: str) -> Column:
    """A struct with a field ``name``, the value of a condition; null where it raises an error.

    ``try_to_binary`` is one of those functions, and takes any text. So this way is open to Spark Connect, too.
    """
    from pyspark.sql import functions as f

    text = f.try_to_binary(f.coalesce(condition.cast("boolean").cast("string"), f.lit("null")), f.lit("utf-8"))
    value = f.decode(text, "utf-8")
    return f.when(text.isNotNull(), f.struct(f.when(value != "null", value.cast("boolean")).alias(name)))


def tried(frame: DataFrame, column: Column) -> Column:
    """A column of ``frame`` that is null where it raises an error; through Spark Connect, the column as it is."""
    from pyspark.sql import Column

    if not _has_java(frame):
        return column
    sql = _sql(frame)
    expression = sql.classic.ExpressionUtils.expression(column._jc)
    return Column(sql.classic.ExpressionUtils.column(sql.catalyst.expressions.TryEval(expression)))


def failing_rows(frame: DataFrame) -> DataFrame | None:
    """The first column of a query, with ``fails``: whether another column of the row, or the condition of its WHERE,
    raises an error. None where the query is no plain ``SELECT``, or where nobody can say."""
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as f

    if not _has_java(frame):
        return None
    plan = frame._jdf.queryExecution().analyzed()
    if plan.nodeName() != "Project":
        return None
    sql, listed, below = _sql(frame), plan.projectList(), plan.child()
    first, *others = [Column(sql.classic.ExpressionUtils.column(listed.apply(at))) for at in range(listed.size())]
    condition = f.lit(True)
    if below.nodeName() == "Filter":
        condition, below = Column(sql.classic.ExpressionUtils.column(below.condition())), below.child()
    rows = DataFrame(sql.classic.Dataset.ofRows(frame.sparkSession._jsparkSession, below), frame.sparkSession)
    fails = (
        f.when(tried(rows, f.struct(condition)).isNull(), True)
        .when(tried(rows, condition), tried(rows, f.struct(*others)).isNull())
        .otherwise(False)
    )
    return rows.select(first, fails.alias(FAILS))


def _has_java(frame: DataFrame) -> bool:
    return not type(frame).__module__.startswith("pyspark.sql.connect")


def _sql(frame: DataFrame) -> Any:
    return frame.sparkSession._jvm.org.apache.spark.sql
