"""The projections of a job: their columns, found before the first message, and the rows they make of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gantrymq.spark.pipelines.describe.job_rules import JobInvalid, Problem
from gantrymq.spark.pipelines.formats.column_types import quoted
from gantrymq.spark.pipelines.formats.port import plain
from gantrymq.spark.pipelines.job import MESSAGE_COLUMNS, Job
from gantrymq.spark.pipelines.run.event_stream import REASON, place, view_of
from gantrymq.spark.pipelines.run.expressions import Failed, first_lines, is_about_data, unlogged
from gantrymq.spark.pipelines.targets.port import Columns, ddl_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

VIEW = "events"
REFUSED = "_refused_place"


def columns_of(spark: SparkSession, job: Job, events: DataFrame) -> dict[str, Columns]:
    """The columns of each target. ``events``: the stream of the job, which is not run.

    Raises JobInvalid for projections that Spark cannot make, with Spark's explanation.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    empty = spark.createDataFrame([], view_of(events).schema)
    empty.createOrReplaceTempView(VIEW)
    found: dict[str, Columns] = {}
    problems: list[Problem] = []
    for name, target in job.targets.items():
        key = f"targets.{name}.sql"
        try:
            frame = spark.sql(target.sql)
        except PySparkException as error:
            problems.append(Problem(key, f"Spark refuses this query: {first_lines(error)}"))
            continue
        columns = frame.columns
        needed = [*getattr(target, "key", ()), *getattr(target, "partition_by", ())]
        if job.changes is not None:
            order = [one for one in (*job.changes.key, *job.changes.order_by) if one not in needed]
            problems += [Problem(key, text) for text in _not_as_they_are(frame, empty, order)]
        if len(set(columns)) < len(columns):
            problems.append(Problem(key, f"two columns have one name: {', '.join(columns)}; rename one with AS"))
        problems += [
            Problem(key, f"the projection has no column {one}, which the target needs; it has {', '.join(columns)}")
            for one in needed
            if one not in columns
        ]
        # The time zone is that of DataFrame.toArrow.
        found[name] = Columns(tuple(columns), ddl_of(frame.schema), to_arrow_schema(frame.schema, timezone="UTC"))
    if problems:
        raise JobInvalid(f"job {job.name}", problems)
    return found


def _not_as_they_are(frame: DataFrame, events: DataFrame, names: Sequence[str]) -> Iterator[str]:
    """What is wrong with columns that a target with changes must have as the events have them."""
    for name in names:
        if name not in frame.columns:
            yield (
                f"the projection has no column {name}, by which changes find their row and know its order; it has "
                f"{', '.join(frame.columns)}"
            )
        elif frame.schema[name].dataType != events.schema[name].dataType:
            yield (
                f"the projection makes {frame.schema[name].dataType.simpleString()} of the column {name}, which is "
                f"{events.schema[name].dataType.simpleString()} in the events; changes need it as it is"
            )


def evaluated(events: DataFrame, sql: str) -> pa.Table:
    """The rows of a query of the view ``events``. Raises Failed where the events are at fault."""
    return collected(rows_of(events, sql))


def rows_of(events: DataFrame, sql: str) -> DataFrame:
    """The rows of a query of the view ``events``, which is not run."""
    events.createOrReplaceTempView(VIEW)
    return events.sparkSession.sql(sql)


def collected(frame: DataFrame) -> pa.Table:
    """The rows of a data frame. Raises Failed where the events are at fault."""
    with failures():
        return frame.toArrow()


@contextmanager
def failures() -> Iterator[None]:
    """Raise Failed where a query fails because of its events."""
    try:
        with unlogged():
            yield
    # PySpark has its own errors for some of Java's, and Py4J's for others.
    except Exception as error:
        if is_about_data(error):
            raise Failed(error) from error
        raise


def without_keys(frame: DataFrame, known: pa.Table, key: Sequence[str]) -> DataFrame:
    """The rows whose key is not among ``known``. A row with null in its key is never known."""
    from pyspark.sql import functions as f

    kinds = {name: frame.schema[name].dataType for name in key}
    others = frame.sparkSession.createDataFrame(known.select(list(key)))
    others = others.select(*(f.col(quoted(name)).cast(kinds[name]).alias(f"_known_{name}") for name in key))
    same = [f.col(quoted(name)) == f.col(quoted(f"_known_{name}")) for name in key]
    return frame.join(f.broadcast(others), same, "left_anti")


def without(batch: DataFrame, refused: Mapping[str, str]) -> DataFrame:
    """The messages of a batch but these, which are known by their places."""
    from pyspark.sql import functions as f

    if not refused:
        return batch
    return batch.join(f.broadcast(_places(batch, refused)), place() == f.col(REFUSED), "left_anti")


def refused_for_now(batch: DataFrame, parts: Sequence[str]) -> dict[str, str]:
    """The messages that are no events for a reason with one of these texts, by their places."""
    from functools import reduce

    from pyspark.sql import functions as f

    said = reduce(lambda one, other: one | other, (f.col(REASON).contains(part) for part in parts))
    rows = batch.where(said).select(place().alias("place"), REASON).collect()
    return {row["place"]: row[REASON] for row in rows}


def dead_letters_of(batch: DataFrame, refused: Mapping[str, str]) -> DataFrame:
    """The messages of a batch that are no events, and those that a target has refused."""
    from pyspark.sql import functions as f

    if refused:
        known = f.broadcast(_places(batch, refused))
        batch = batch.join(known, place() == f.col(REFUSED), "left")
        batch = batch.withColumn(REASON, f.coalesce(REASON, f.col("_refused_reason")))
    return batch.where(f.col(REASON).isNotNull()).select(*MESSAGE_COLUMNS, REASON)


def _places(batch: DataFrame, refused: Mapping[str, str]) -> DataFrame:
    import pyarrow as pa

    columns = {REFUSED: list(refused), "_refused_reason": [plain(one) for one in refused.values()]}
    return batch.sparkSession.createDataFrame(pa.table(columns))
