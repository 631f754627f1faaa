"""The writers that Spark creates, pickles and calls. They hold settings, and no connection.

Spark calls ``write`` in tasks, and ``commit`` or ``abort`` in a process of the driver. Of a stream it makes a new
writer for each batch and in each of these processes, so nothing passes from ``write`` to ``commit`` but the messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from gantrymq.errors import ConfigError
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.sink.columns import SinkColumns, sink_columns
from gantrymq.spark.sink.options import Guarantee, SinkSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from gantrymq.spark.sink.exactly_once import Sent

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Spark's names of the local properties of a task that runs for a stream."""


@dataclass
class Written(WriterCommitMessage):
    """What a task says to the driver."""

    sent: Sent | None
    """None: at_least_once, where nothing is left to do."""
    rows: int


def write_task(
    settings: SinkSettings, columns: SinkColumns, query_id: str, batch: int, batches: Iterator[pa.RecordBatch]
) -> Written:
    """Send the rows of one task."""
    # Imported here, because looking up the format and planning need neither Arrow nor a client.
    from gantrymq.spark.sink.at_least_once import send_rows
    from gantrymq.spark.sink.exactly_once import Sent, send_halves
    from gantrymq.spark.sink.ids import BatchId, query_digits

    if settings.namespace is not None and columns.topic is not None:
        from gantrymq.spark.sink.row_topics import in_namespace

        batches = (in_namespace(batch, columns.topic, settings.namespace) for batch in batches)
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    of = BatchId(query_digits(query_id), batch)
    if settings.guarantee is Guarantee.AT_LEAST_ONCE:
        return Written(None, send_rows(settings, columns, of, partition, batches))
    winner = send_halves(settings, columns, of, partition, batches)
    return Written(Sent(of, query_id, winner), 0 if winner is None else winner.rows)


def finish(settings: SinkSettings, messages: Sequence[Any], *, abort: bool) -> None:
    """Commit or abort a batch. ``messages``: of its tasks; None for a task that failed."""
    sent = [message.sent for message in messages if message is not None and message.sent is not None]
    if settings.guarantee is Guarantee.AT_LEAST_ONCE or not sent:
        return
    from gantrymq.spark.sink.exactly_once import Commit

    commit = Commit(settings)
    if abort:
        commit.abort(sent)
    else:
        commit.commit(sent)


class BatchWriter(DataSourceArrowWriter):
    """``df.write`` and INSERT. Spark pickles this one object to the tasks and to the driver's commit."""

    def __init__(self, settings: SinkSettings, columns: SinkColumns) -> None:
        self._settings = settings
        self._columns = columns
        self._write_id = settings.write_id or SystemRng().token(16).hex()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self._settings, self._columns, self._write_id, 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        finish(self._settings, messages, abort=False)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        finish(self._settings, messages, abort=True)


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream``."""

    def __init__(self, settings: SinkSettings, columns: SinkColumns) -> None:
        self._settings = settings
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(QUERY_ID)
        batch = None if context is None else context.getLocalProperty(BATCH_ID)
        if query_id is None or batch is None:
            raise ConfigError("Spark did not say which batch of which query a task writes; use Spark 4.2 or 4.3")
        return write_task(self._settings, self._columns, query_id, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        finish(self._settings, messages, abort=False)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        finish(self._settings, messages, abort=True)


def batch_writer(settings: SinkSettings, schema: StructType, overwrite: bool) -> DataSourceWriter:
    """Raises ConfigError for wrong columns, and for a mode that a topic cannot have."""
    if overwrite:
        raise ConfigError('a topic cannot be overwritten: messages are only added; use .mode("append") or INSERT INTO')
    return BatchWriter(settings, sink_columns(schema, settings))


def stream_writer(settings: SinkSettings, schema: StructType) -> DataSourceStreamArrowWriter:
    """With output mode complete every batch adds all rows of the result. Raises ConfigError for wrong columns."""
    if settings.write_id is not None:
        raise ConfigError("writeId is for batches; a stream is recognised by its checkpoint. Remove the option")
    return StreamWriter(settings, sink_columns(schema, settings))
