"""A listener for Spark sessions that exports how far each streaming query is behind.

spark.streams.addListener(LagListener("status"))     # then: gantry pipeline status --dir status
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from gantrymq.errors import StoreError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.monitoring.lag import lag_of
from gantrymq.spark.monitoring.status import FAILED, RUNNING, STOPPED, QueryStatus, StatusFiles

log = logging.getLogger("gantrymq.spark")

EVERY_S: Final = 1.0
"""The status of a query is written at most this often, and at its end."""


class LagListener(StreamingQueryListener):
    """Writes the status of every query of the session to files: rows behind, seconds behind, size of the state.

    ``directory``: where the files are; see ``status.py``. A directory that cannot be written is logged and
    disturbs no query. Works in classic sessions and in those of Spark Connect (there in the client).
    """

    def __init__(self, directory: str) -> None:
        self._files = StatusFiles(directory, OsDisk())
        self._clock = SystemClock()
        self._of_runs: dict[str, QueryStatus] = {}
        """The latest status of each run."""
        self._written_at: dict[str, float] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._keep(
            str(event.runId),
            QueryStatus(
                id=str(event.id), name=event.name, state=RUNNING, at_ms=self._clock.wall_ms(), process=os.getpid()
            ),
        )
        self._write(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.progress(msgspec.json.decode(event.progress.json))

    def progress(self, progress: Mapping[str, Any]) -> None:
        """Note one progress, in the form of Spark's JSON."""
        run, now_ms = progress["runId"], self._clock.wall_ms()
        before = self._of_runs.get(run)
        lag = lag_of(progress, now_ms)
        self._keep(
            run,
            QueryStatus(
                id=progress["id"],
                name=progress.get("name"),
                state=RUNNING,
                at_ms=now_ms,
                process=os.getpid(),
                batch=progress["batchId"],
                rows=(before.rows if before else 0) + progress.get("numInputRows", 0),
                rows_per_second=progress.get("processedRowsPerSecond"),
                rows_behind=lag.rows_behind,
                seconds_behind=lag.seconds_behind,
                state_rows=lag.state_rows,
                state_bytes=lag.state_bytes,
            ),
        )
        if self._clock.monotonic() - self._written_at.get(run, 0.0) >= EVERY_S:
            self._write(run)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to note: the last progress says that everything is read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        run = str(event.runId)
        last = self._of_runs.get(run)
        if last is None:
            last = QueryStatus(id=str(event.id), name=None, state=RUNNING, at_ms=0, process=os.getpid())
        error = event.exception.splitlines()[0] if event.exception else None
        state = FAILED if error else STOPPED
        self._keep(run, msgspec.structs.replace(last, state=state, error=error, at_ms=self._clock.wall_ms()))
        self._write(run)
        del self._of_runs[run]
        self._written_at.pop(run, None)

    def _keep(self, run: str, status: QueryStatus) -> None:
        self._of_runs[run] = status

    def _write(self, run: str) -> None:
        self._written_at[run] = self._clock.monotonic()
        try:
            self._files.write(self._of_runs[run])
        except (OSError, StoreError) as error:
            log.warning("the status of a query cannot be written to %s: %s", self._files.directory, error)
