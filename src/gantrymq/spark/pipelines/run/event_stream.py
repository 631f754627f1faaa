"""From messages to events: bodies decoded, those that are no events marked, repeats removed. Works for streams and
batches.

The columns that leave here are: ``reason``, which is null for an event and says of every other message why it is none;
the columns of the view ``events``, with a prefix; of a job with changes ``is_delete``; and the columns of the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.changes.operations import IS_DELETE, is_delete, refused_operation, refused_types
from gantrymq.spark.pipelines.formats.column_types import quoted
from gantrymq.spark.pipelines.formats.decoding import EVENT, decoder_of
from gantrymq.spark.pipelines.formats.decoding import REASON as EVENT_REASON
from gantrymq.spark.pipelines.job import MESSAGE_COLUMNS, Body, Job
from gantrymq.spark.pipelines.run.expressions import holds, not_held, with_columns
from gantrymq.spark.pipelines.run.job_clock import JobClock

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REASON = "reason"
PREFIX = "event "
"""Before the names of the columns of an event; no column of a message begins like this."""
MESSAGE = "message"
"""The struct in the view ``events`` with the columns of the message that ``source.columns`` names."""
VALID = "_valid"
STATE = "spark.sql.streaming.stateStore."
STATE_CONF = {
    STATE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # A batch writes only what it changed, and not a copy of the files.
    STATE + "rocksdb.changelogCheckpointing.enabled": "true",
    # Counting all keys doubles the reads of each write.
    STATE + "rocksdb.trackTotalNumberOfRows": "false",
    STATE + "rocksdb.boundedMemoryUsage": "true",
    STATE + "rocksdb.maxMemoryUsageMB": "128",
    # Otherwise each batch is followed by an empty one, which only forgets old keys. The next batch does that as well.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # A batch is cached for a moment only.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
"""The keys of events are in RocksDB on the disk of the executors. In the heap of the JVM each batch takes longer than
the one before, until the heap is full."""


def events_of(frame: DataFrame, job: Job, clock: JobClock | None) -> DataFrame:
    """The events of messages, each once. ``clock``: of a stream; None for a batch."""
    from pyspark.sql import functions as f

    marked = _marked(decoded(frame, job.body), job)
    if job.events.key:
        marked = _once(marked, job, clock)
    # A target may refuse an event, which becomes a dead letter then. Without dead letters nobody needs the body again.
    body = f.col("body") if job.dead_letters is not None else f.lit(None).cast("binary")
    # Plain columns, and not a struct: a batch is cached by column, and each projection reads only what it names.
    fields = [f.col(f"{EVENT}.{quoted(name)}").alias(PREFIX + name) for name in _names_in(marked)]
    if job.changes is not None:
        fields.append(is_delete(job.changes, lambda name: _field(marked, name)).alias(IS_DELETE))
    return marked.select(REASON, *fields, *MESSAGE_COLUMNS[:-1], body.alias(MESSAGE_COLUMNS[-1]))


def view_of(events: DataFrame) -> DataFrame:
    """The view ``events``: the events, with the names that projections use."""
    from pyspark.sql import functions as f

    named = [name for name in events.columns if name.startswith(PREFIX)]
    fields = [f.col(quoted(name)).alias(name.removeprefix(PREFIX)) for name in named]
    return events.where(f.col(REASON).isNull()).select(*fields)


def place() -> Column:
    """The position of a message as a text, which is unique: no two dead letters are the same."""
    from pyspark.sql import functions as f

    return f.concat_ws("/", *MESSAGE_COLUMNS[:-1])


def decoded(frame: DataFrame, body: Body) -> DataFrame:
    """The message with the columns ``event`` and ``event_reason``, one of which is null."""
    from pyspark.sql import functions as f

    if body.format == "none":
        return frame.withColumns({EVENT: f.struct(*frame.columns), EVENT_REASON: f.lit(None).cast("string")})
    decoder = decoder_of(body)
    columns = [*frame.dtypes, (EVENT, decoder.spark_type), (EVENT_REASON, "string")]
    return frame.mapInArrow(decoder.add_event, ", ".join(f"{name} {kind}" for name, kind in columns))


def _marked(frame: DataFrame, job: Job) -> DataFrame:
    """With ``reason``: null where the body is an event, its key is complete, and ``events.valid`` holds."""
    from pyspark.sql import functions as f

    frame = _with_message(frame, job)
    reasons = [f.col(EVENT_REASON)]
    if job.events.columns:
        frame, failed = with_columns(frame, job.events.columns)
        reasons += failed
    parts = {"events.key": job.events.key}
    if job.changes is not None:
        parts = {"changes.key": job.changes.key, "changes.order_by": job.changes.order_by}
    for part, names in parts.items():
        for name in names:
            missing = f.lit(f"the column {name}, which is part of {part}, is null")
            reasons.append(f.when(_field(frame, name, part).isNull(), missing))
    if job.changes is not None:
        refused_types(job.changes, frame.schema[EVENT].dataType)
        reasons += refused_operation(job.changes, lambda name: _field(frame, name, "changes.operation"))
    if job.events.valid is not None:
        # The condition speaks of the columns of the event, and the columns of the message must not hide them.
        outer = [f.col(name).alias(f"_message_{name}") for name in frame.columns]
        inner = frame.select(*outer).select("*", f"_message_{EVENT}.*")
        inner = inner.withColumn(VALID, holds(job.events.valid))
        frame = inner.select(*(f.col(f"_message_{name}").alias(name) for name in frame.columns), VALID)
        not_valid = not_held(VALID, job.events.valid)
        if job.changes is not None:
            # Of a row that goes nobody needs to know more than its key.
            not_valid = f.when(~is_delete(job.changes, lambda name: _field(frame, name)), not_valid)
        reasons.append(not_valid)
    return frame.withColumn(REASON, f.coalesce(*reasons))


def _with_message(frame: DataFrame, job: Job) -> DataFrame:
    """With the columns of the message that the job names, as a struct in the event."""
    from pyspark.sql import functions as f

    named = job.named_columns
    if not named or job.body.format == "none":
        return frame
    if MESSAGE in _names_in(frame):
        raise ConfigError(f"source.columns: rename the column {MESSAGE} of the events, which is the message's name")
    with_message = f.col(EVENT).withField(MESSAGE, f.struct(*named))
    return frame.withColumn(EVENT, f.when(f.col(EVENT).isNotNull(), with_message))


def _names_in(frame: DataFrame) -> list[str]:
    """The names of the columns of an event."""
    return [field.name for field in frame.schema[EVENT].dataType.fields]


def _once(frame: DataFrame, job: Job, clock: JobClock | None) -> DataFrame:
    from pyspark.sql import functions as f

    identity = f.when(f.col(REASON).isNull(), _key(frame, job)).otherwise(f.concat_ws("/", f.lit("at"), place()))
    frame = frame.withColumn("identity", identity)
    if clock is None:
        return frame.dropDuplicates(["identity"])
    # Spark forgets a key when the watermark, which is one delay behind, has passed the key's time plus the delay. So
    # half the horizon as the delay keeps a key for one horizon.
    delay = f"{(job.events.horizon_ms + 1) // 2} milliseconds"
    timed = frame.withColumn("job_time", clock.column()).withWatermark("job_time", delay)
    return timed.dropDuplicatesWithinWatermark(["identity"])


def _field(frame: DataFrame, name: str, key: str = "events.key") -> Column:
    """A column of the event, or a field of a struct in it such as ``user.id``. ``key``: of the job file."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    if name in _names_in(frame):
        return f.col(f"{EVENT}.{quoted(name)}")
    parts, kind = name.split("."), frame.schema[EVENT].dataType
    for part in parts:
        if not isinstance(kind, StructType) or part not in kind.names:
            raise ConfigError(
                f"{key}: the events have no column {name}; they have {', '.join(_names_in(frame))}. A field of a "
                "struct is written as in user.id"
            )
        kind = kind[part].dataType
    return f.col(".".join((EVENT, *map(quoted, parts))))


def _key(frame: DataFrame, job: Job) -> Column:
    """The key as a text. Each part follows its length, so that no two different keys have the same text."""
    from pyspark.sql import functions as f

    texts = [_field(frame, name).cast("string") for name in job.events.key]
    return f.concat(*(part for text in texts for part in (f.length(text), f.lit(" "), text)))
