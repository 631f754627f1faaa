"""Errors of Spark's SQL: what they say, whether the data is at fault, and expressions of a job that are null instead.

Spark raises an error for a number that overflows or a text that is no number, which would end the batch
(``events.columns``, ``events.valid``), and has no general way to go on. Its Java library has one, which functions such
as ``try_to_timestamp`` are made of. Spark Connect's protocol does not have it, but the functions. All of this needs
``TRY_CONF``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.decoding import EVENT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DATA: Final = re.compile(
    r"SQLSTATE: (22|P0)|java\.lang\.(ArithmeticException|NumberFormatException|IllegalArgumentException)"
    r"|java\.time\.|java\.util\.regex\.|ArrayIndexOutOfBounds"
)
"""A data exception of SQL, ``raise_error``, or what functions of Java raise for a value."""


@contextmanager
def unlogged() -> Iterator[None]:
    """PySpark does not write the errors of queries into the log: they are expected here, and there may be many."""
    from pyspark.logger import PySparkLogger

    # A logger of another class could not take what PySpark gives to this one.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


class Failed(Exception):
    """A query failed because of the data that it was given."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


def is_about_data(error: Exception) -> bool:
    """Whether another try would fail as well, and other data would not: nothing is wrong with the cluster."""
    return _DATA.search(str(error)) is not None


def first_lines(error: Exception) -> str:
    """The beginning of what Spark says, in one line."""
    return " ".join(re.split(r"\n\nJVM stacktrace|\n\tat |\n== SQL", str(error))[0].split())[:500]


_OUTER, _COMPUTED = "_message_", "_computed_"
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


def holds(condition: str) -> Column:
    """A struct with the value of an SQL condition; null where it raises an error."""
    from pyspark.sql import functions as f

    return tried_truth(f.expr(condition), "holds")


def not_held(name: str, condition: str) -> Column:
    """Why an event is not valid; null if it is. ``name``: the column with what ``holds`` gives."""
    from pyspark.sql import functions as f

    said, value = condition.strip(), f.col(f"{name}.holds")
    return (
        f.when(f.col(name).isNull(), f.lit(f"the condition cannot be computed: {said}"))
        .when(value.isNull(), f.lit(f"the condition is null, so it does not hold: {said}"))
        .when(~value, f.lit(f"the condition does not hold: {said}"))
    )


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
