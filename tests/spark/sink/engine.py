"""A program that calls the exactly_once sink as Spark's engine does, and dies at a named point.

    python -m tests.spark.sink.engine NAME_SERVERS DIRECTORY POINT

It writes BATCHES batches, each in two tasks. A file in DIRECTORY for each committed batch is what ``commits/N`` of a
checkpoint is for Spark: when the program runs again, it begins with the first batch that has none, with the same rows
in another order. The name of DIRECTORY is that of the topic and of the producer group. At POINT of batch 2 the program
is killed with SIGKILL, or a step raises; see ``POINTS``. Only Spark's transport between processes is not here;
``tests/spark/sink/test_sink.py`` has that.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gantrymq.message.transaction import Resolution
from gantrymq.spark.sink import exactly_once
from gantrymq.spark.sink.columns import SinkColumns
from gantrymq.spark.sink.exactly_once import Commit, Sent, send_halves
from gantrymq.spark.sink.ids import BatchId, query_digits
from gantrymq.spark.sink.options import SinkSettings, parse_sink_options
from gantrymq.spark.sink.rules import BatchDecision, Winner

BATCHES, PARTITIONS, ROWS = 4, 2, 60
"""Batches, tasks of a batch, rows of a task."""
FAULTY = 2
COLUMNS = SinkColumns(body=0)
POINTS = (
    "never",
    "kill in a task",
    "raise in a task",
    "raise in a task for good",
    "kill before the decision",
    "kill after the decision",
    "raise after the decision",
    "kill between the ends",
    "raise between the ends",
    "kill after the last end",
)


class Crash(Exception):
    """The step that raises."""


def rows_of(batch: int) -> set[str]:
    """The rows of a batch, the same in every run."""
    return {f"{batch}-{partition}-{row}" for partition in range(PARTITIONS) for row in range(ROWS)}


def all_rows() -> list[str]:
    return sorted(row for batch in range(BATCHES) for row in rows_of(batch))


def strike(point: str) -> None:
    if point.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    raise Crash(point)


class FaultyCommit(Commit):
    """Dies between two steps of a commit."""

    def __init__(self, settings: SinkSettings, point: str) -> None:
        super().__init__(settings)
        self._point = point

    def decide(self, sent: Sequence[Sent]) -> BatchDecision:
        if self._point.endswith("before the decision"):
            strike(self._point)
        found = super().decide(sent)
        if self._point.endswith("after the decision"):
            strike(self._point)
        return found

    def end(self, winners: Sequence[Winner], resolution: Resolution) -> None:
        if resolution is Resolution.COMMIT and self._point.endswith("between the ends"):
            super().end(winners[:1], resolution)
            strike(self._point)
        super().end(winners, resolution)

    def note_end(self, of: BatchId) -> None:
        if self._point.endswith("after the last end"):
            strike(self._point)
        super().note_end(of)


def task(rows: list[str], point: str) -> Iterator[pa.RecordBatch]:
    """Two Arrow batches; the fault comes between them, when the first one is sent."""
    half = len(rows) // 2
    yield pa.RecordBatch.from_pydict({"body": rows[:half]})
    if "in a task" in point:
        strike(point)
    yield pa.RecordBatch.from_pydict({"body": rows[half:]})


def run(name_servers: str, directory: Path, point: str, options: dict[str, str]) -> None:
    """``options``: of the sink, for the batch with the fault."""
    query_id = str(directory)
    for batch in range(BATCHES):
        marker = directory / str(batch)
        if not marker.exists():
            settings = settings_of(name_servers, directory.name, **(options if batch == FAULTY else {}))
            write_batch(settings, BatchId(query_digits(query_id), batch), query_id, point if batch == FAULTY else "")
            marker.touch()


def write_batch(settings: SinkSettings, of: BatchId, query_id: str, point: str) -> None:
    rows = sorted(rows_of(of.batch))
    random.shuffle(rows)  # a batch that runs again may have its rows in other tasks
    sent: list[Any] = []
    commit = FaultyCommit(settings, point)
    try:
        for partition in range(PARTITIONS):
            mine = rows[partition::PARTITIONS]
            try:
                winner = send_halves(settings, COLUMNS, of, partition, task(mine, point))
            except Crash:
                if point.endswith("for good"):
                    raise
                winner = send_halves(settings, COLUMNS, of, partition, task(mine, ""))  # Spark tries a task again
            sent.append(Sent(of, query_id, winner))
        commit.commit(sent)
    except Exception:
        commit.abort(sent)
        raise


def settings_of(name_servers: str, name: str, **options: str) -> SinkSettings:
    """``name``: of the topic and of the producer group, so that queries on one broker have nothing in common."""
    given = {"nameServers": name_servers, "topic": name, "producerGroup": name, "batchMaxRows": "7", **options}
    return parse_sink_options(given)


def main() -> None:
    name_servers, directory, point = sys.argv[1:4]
    options = dict(option.split("=", 1) for option in sys.argv[4:])
    exactly_once.ENDS_IN_FLIGHT = 1  # type: ignore[misc] - so that "between the ends" is one place
    run(name_servers, Path(directory), point, options)


if __name__ == "__main__":
    main()
