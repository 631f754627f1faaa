"""How ranges of a query become Spark tasks, and how a task reads its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.error_reports import without_traceback
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.patience import Patience
from gantrymq.spark.source.connections import OF_THIS_PROCESS
from gantrymq.spark.source.partitions import QueueRange, Task, plan_tasks
from gantrymq.spark.source.planning import Planner
from gantrymq.spark.source.quiet_workers import in_worker

if TYPE_CHECKING:
    import pyarrow as pa


class TaskPartition(InputPartition):
    """A task, and what its planner knows of the brokers that it reads from. So a worker process that is new reads also
    while no name server answers."""

    def __init__(self, task: Task, routes: Mapping[str, TopicRoute]) -> None:
        super().__init__(task)
        self.routes = {part.queue.topic: routes[part.queue.topic] for part in task if part.queue.topic in routes}


def read_task(
    settings: SourceSettings, columns: tuple[str, ...], partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """The rows of one task. This runs in a worker process, and uses the connections of that process."""
    # Imported here, because looking up the format and planning need neither Arrow nor numpy.
    from gantrymq.spark.source.reading import RangeReader

    in_worker()
    with without_traceback():
        # When there is nothing to read, Spark makes one partition by itself, with the value None.
        if not isinstance(partition, TaskPartition):
            return
        connection = OF_THIS_PROCESS.reader(settings.name_servers, settings.access)
        for topic, route in partition.routes.items():
            connection.introduce(topic, route)
        reader = RangeReader(
            connection,
            Patience(settings.read_timeout_ms, SystemClock(), SystemRng()),
            fail_on_data_loss=settings.fail_on_data_loss,
            pull_max_rows=settings.pull_max_rows,
            selection=settings.filter,
        )
        yield from reader.all_batches(partition.value, columns)


def new_planner(settings: SourceSettings) -> Planner:
    return Planner(settings, OF_THIS_PROCESS, SystemClock(), SystemRng())


def as_partitions(settings: SourceSettings, planner: Planner, ranges: Sequence[QueueRange]) -> list[InputPartition]:
    tasks = plan_tasks(ranges, settings.min_partitions, settings.max_rows_per_partition)
    routes = planner.routes({part.queue.topic for part in ranges})
    return [TaskPartition(task, routes) for task in tasks]
