"""Where the topics of a job end at the moment."""

from __future__ import annotations

from gantrymq.spark.offsets import Positions
from gantrymq.spark.options.settings import Edge, parse_options
from gantrymq.spark.pipelines.job import Job


def ends_of(job: Job) -> Positions:
    """The current end offsets of the topics."""
    from gantrymq.spark.source.tasks import new_planner

    planner = new_planner(parse_options(job.source))
    return planner.edge(Edge.LATEST, planner.queues())
