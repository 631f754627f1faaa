"""How ranges of a query become Spark tasks, and how a task reads its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.connections import OF_THIS_PROCESS
from gantrymq.spark.one_sentence import one_sentence
from gantrymq.spark.options import Settings
from gantrymq.spark.partitions import QueueRange, Task, plan_tasks
from gantrymq.spark.patience import Patience
from gantrymq.spark.planning import Planner
from gantrymq.spark.quiet_workers import in_worker

if TYPE_CHECKING:
    import pyarrow as pa


def read_task(settings: Settings, columns: tuple[str, ...], task: Task) -> Iterator[pa.RecordBatch]:
    """The rows of one task. This runs in a worker process, and uses the connections of that process."""
    # Imported here, because looking up the format and planning need neither Arrow nor numpy.
    from gantrymq.spark.reading import RangeReader

    in_worker()
    with one_sentence():
        reader = RangeReader(
            OF_THIS_PROCESS.reader(settings.name_servers, settings.access),
            Patience(settings.read_timeout_ms, SystemClock(), SystemRng()),
            fail_on_data_loss=settings.fail_on_data_loss,
            pull_max_rows=settings.pull_max_rows,
            selection=settings.filter,
        )
        yield from reader.all_batches(task, columns)


def new_planner(settings: Settings) -> Planner:
    return Planner(settings, OF_THIS_PROCESS, SystemClock(), SystemRng())


def as_partitions(settings: Settings, ranges: Sequence[QueueRange]) -> list[InputPartition]:
    tasks = plan_tasks(ranges, settings.min_partitions, settings.max_rows_per_partition)
    return [InputPartition(task) for task in tasks]
