"""Batches of a job that runs through Spark Connect.

Its server calls the function of ``foreachBatch`` in a process of its own, which has this package and the directories of
the job, and which keeps the targets open until the query ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gantrymq.errors import StoreLocked
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.spark.pipelines.job import Job
from gantrymq.spark.pipelines.run.batches import Batches
from gantrymq.spark.pipelines.run.checkpoint import query_id
from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
from gantrymq.spark.pipelines.run.rows_of_others import UntilPassed
from gantrymq.spark.pipelines.targets.object_stores import disk_of
from gantrymq.spark.pipelines.targets.port import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RELEASED_WITHIN_S: Final = 60.0
"""So long the process of the server may take to end after its query."""
_open: dict[str, Batches] = {}
"""In the process of the server: the open targets of a job, by its checkpoint."""


@dataclass(frozen=True, slots=True)
class RemoteBatches:
    """Called by the server for each batch; pickled by the client."""

    job: Job
    columns: Mapping[str, Columns]

    def __call__(self, batch: DataFrame, number: int) -> None:
        checkpoint = self.job.checkpoint
        disk = disk_of(checkpoint, OsDisk())
        if checkpoint not in _open:
            look = UntilPassed(self.job, disk, SystemClock().wall_ms)
            _open[checkpoint] = Batches(self.job, self.columns, ProgressLines(None), OsDisk(), look)
        _open[checkpoint].write(batch, number, query_id(checkpoint, disk))

    def close(self) -> None:
        """Let others write, in the process where this was called."""
        if self.job.checkpoint in _open:
            _open.pop(self.job.checkpoint).close()


def reopened(job: Job, columns: Mapping[str, Columns], progress: ProgressLines, disk: Disk) -> Batches:
    """The targets in the client, as soon as the process of the server has let go of them. Raises StoreLocked."""
    clock = SystemClock()
    end = clock.monotonic() + RELEASED_WITHIN_S
    while True:
        try:
            look = UntilPassed(job, disk_of(job.checkpoint, disk), SystemClock().wall_ms)
            return Batches(job, columns, progress, disk, look)
        except StoreLocked:
            if clock.monotonic() > end:
                raise
            clock.block(0.1)
