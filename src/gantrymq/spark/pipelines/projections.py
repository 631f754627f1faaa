"""The projections of a job: their columns, found before the first message, and the rows they make of a batch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gantrymq.spark.pipelines.event_stream import view_of
from gantrymq.spark.pipelines.job import DEAD_LETTER_SCHEMA, MESSAGE_COLUMNS, Job
from gantrymq.spark.pipelines.job_rules import JobInvalid, Problem

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

VIEW = "events"


@dataclass(frozen=True, slots=True)
class Columns:
    """What a projection yields."""

    names: tuple[str, ...]
    ddl: str
    arrow: pa.Schema
    """As the rows of a batch come; it makes a table before the first row."""


def dead_letter_columns() -> Columns:
    """The columns of the dead letters of every job."""
    import pyarrow as pa

    kinds = (pa.string(), pa.string(), pa.int32(), pa.int64(), pa.binary(), pa.string())
    names = (*MESSAGE_COLUMNS, "reason")
    return Columns(names, DEAD_LETTER_SCHEMA, pa.schema(list(zip(names, kinds, strict=True))))


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
            problems.append(Problem(key, f"Spark refuses this query: {_first_lines(error)}"))
            continue
        columns = frame.columns
        needed = [*getattr(target, "key", ()), *getattr(target, "partition_by", ())]
        if len(set(columns)) < len(columns):
            problems.append(Problem(key, f"two columns have one name: {', '.join(columns)}; rename one with AS"))
        problems += [
            Problem(key, f"the projection has no column {one}, which the target needs; it has {', '.join(columns)}")
            for one in needed
            if one not in columns
        ]
        ddl = ", ".join(f"{_quoted(field.name)} {field.dataType.simpleString()}" for field in frame.schema.fields)
        # The time zone is that of DataFrame.toArrow.
        found[name] = Columns(tuple(columns), ddl, to_arrow_schema(frame.schema, timezone="UTC"))
    if problems:
        raise JobInvalid(f"job {job.name}", problems)
    return found


def rows_of(batch: DataFrame, job: Job, names: list[str]) -> Mapping[str, pa.Table]:
    """The rows of these targets. ``batch`` is persisted: each projection is one small Spark job."""
    view_of(batch).createOrReplaceTempView(VIEW)
    return {name: batch.sparkSession.sql(job.targets[name].sql).toArrow() for name in names}


def dead_letters_of(batch: DataFrame, job: Job) -> pa.Table:
    """The messages of a batch that are no events."""
    import pyarrow as pa

    rows = batch.where("not good").select(*MESSAGE_COLUMNS).toArrow()
    return rows.append_column("reason", pa.array([reason_of(job)] * len(rows), pa.string()))


def reason_of(job: Job) -> str:
    """Why a message of this job can be a dead letter."""
    reasons = []
    if job.body.format != "none":
        kind = {"json": "a JSON object with", "avro": "Avro of", "protobuf": "Protobuf of"}[job.body.format]
        reasons.append(f"the body is not {kind} the schema of the job {job.name}")
    if job.events.key:
        reasons.append(f"a column of the key ({', '.join(job.events.key)}) is null")
    if job.events.valid is not None:
        reasons.append(f"the condition does not hold: {job.events.valid.strip()}")
    return ", or ".join(reasons)


def _first_lines(error: Exception) -> str:
    return " ".join(str(error).split("\n\nJVM stacktrace")[0].split())[:500]


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else f"`{name.replace('`', '``')}`"
