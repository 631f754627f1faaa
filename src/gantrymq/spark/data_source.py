"""The data source ``rocketmq`` for ``spark.read`` and ``spark.readStream``.

Spark creates these objects in processes of its own, and pickles them to pass them on. So a reader contains settings and
numbers, and never a connection. Tasks read the batches; one planner process per query asks for the offsets of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from gantrymq.errors import GantryError
from gantrymq.spark.columns.rows import columns_of, ddl
from gantrymq.spark.error_reports import without_traceback
from gantrymq.spark.options.settings import parse_options
from gantrymq.spark.sink.options import parse_sink_options
from gantrymq.spark.sink.writers import batch_writer, stream_writer
from gantrymq.spark.source.batch import BatchReader, FilteredBatchReader
from gantrymq.spark.source.pushdown import is_switched_on
from gantrymq.spark.source.quiet_workers import in_worker
from gantrymq.spark.source.stream import RefusedStream, StreamReader

# At the import, because Spark's planning processes get a pickled object of the class below, which is never initialised.
in_worker()


class RocketMQDataSource(DataSource):
    """Messages of RocketMQ topics as rows. Options: ``options/table.py``; columns: ``columns/rows.py``.

    Only committed messages are read, because half messages and rolled-back messages are in no queue of a topic. Use
    ``.schema("queue_offset bigint, body binary")`` or the option ``columns`` to select columns; the others are not
    decoded.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        # The options are read when Spark asks for something: here it does not say yet whether it reads or writes.
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        with without_traceback():
            return ddl(parse_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        with without_traceback():
            settings, columns = parse_options(self.options).for_batch(), columns_of(schema)
        return FilteredBatchReader(settings, columns) if is_switched_on() else BatchReader(settings, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            return StreamReader(parse_options(self.options).for_stream(), columns_of(schema))
        except GantryError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        with without_traceback():
            return batch_writer(parse_sink_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        with without_traceback():
            return stream_writer(parse_sink_options(self.options), schema)
