"""Adds rows to a Parquet table or a target as one task of Spark and the driver do."""

from __future__ import annotations

import pickle

import pyarrow as pa

from gantrymq.spark.pipelines.targets.parquet.tables import Table
from gantrymq.spark.pipelines.targets.parquet.writer import ParquetStage
from gantrymq.spark.pipelines.targets.parquet_file import File
from gantrymq.spark.pipelines.targets.port import Writer


def added(writer: Writer, query: str, batch: int, table: pa.Table) -> int:
    """Add a batch to a target. What is sent to tasks is pickled."""
    stage = pickle.loads(pickle.dumps(writer.stage(query, batch)))
    staged = list(stage.write(table.to_batches(), 0))
    assert writer.accepts(query, batch, staged)
    return writer.commit(query, batch, staged)


def files_for(table: Table, query: str, batch: int, *tasks: pa.Table) -> list[File]:
    """What tasks have staged, each of them some rows."""
    table.clear(query)
    stage = ParquetStage(table.staged(query), table.partition_by, query, batch)
    staged = [one for at, rows in enumerate(tasks) for one in stage.write(rows.to_batches(), at)]
    return [File.decoded(one.content) for one in staged]


def added_to(table: Table, query: str, batch: int, *tasks: pa.Table) -> int:
    """Add a batch to a Parquet table."""
    return table.commit(query, batch, files_for(table, query, batch, *tasks))
