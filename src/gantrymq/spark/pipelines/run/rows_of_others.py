"""Rows that others have put into a target: an earlier query whose checkpoint is lost, or a backfill.

A query knows the keys of its own events by its state. Those of others it must look for in the target, but only for a
while: until it has passed the end that the topics had when it noticed the others, because no message behind that end
was ever theirs, and until one horizon is over, in which their events have repeats. What it has noticed is in its
checkpoint, so a restart does not begin to look anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from gantrymq.errors import StoreFormatUnknown
from gantrymq.runtime.disk import Disk, read_whole, write_durably
from gantrymq.spark.offsets import Positions, Tree, covers, from_tree, to_tree
from gantrymq.spark.pipelines.job import Job
from gantrymq.spark.pipelines.run.checkpoint import begin_of_batch
from gantrymq.spark.pipelines.run.job_clock import JobClock, last_clock
from gantrymq.spark.pipelines.run.messages import ends_of
from gantrymq.spark.pipelines.targets.port import NOBODY


class Comparison(Protocol):
    """Says when a batch must be compared with rows of others."""

    def query(self, query: str) -> str:
        """Whose rows are not those of others."""

    def needed(self, target: str, others: Callable[[], Mapping[str, int]], batch: int) -> bool:
        """Whether the rows of a batch may be in a target already. ``others``: who else has written there, each with its
        last batch."""


class Always:
    """For batches that come without Spark's state: each may repeat what an earlier one had, also its own."""

    def query(self, query: str) -> str:
        return NOBODY

    def needed(self, target: str, others: Callable[[], Mapping[str, int]], batch: int) -> bool:
        return True


class Noticed(msgspec.Struct, frozen=True):
    """The others that a query has noticed in one target."""

    others: dict[str, int]
    until: Tree
    """The ends of the topics then."""
    until_ms: int
    """The time of the job at which one horizon is over."""

    def has(self, others: Mapping[str, int]) -> bool:
        """Whether these have written nothing since."""
        return all(self.others.get(name, -1) >= batch for name, batch in others.items())

    def is_over(self, begin: Positions, now_ms: int) -> bool:
        return now_ms >= self.until_ms and covers(begin, from_tree(self.until, "until"))


class UntilPassed:
    """For a stream."""

    def __init__(self, job: Job, disk: Disk, now_ms: Callable[[], int]) -> None:
        """``now_ms``: the time of this machine."""
        self._job = job
        self._disk = disk
        self._now_ms = now_ms
        self._path = f"{job.checkpoint}/others.json"
        self._noticed: dict[str, Noticed] = {}
        self._asked: set[str] = set()
        """The targets that were asked in this run."""
        self._clock: JobClock | None = None

    def query(self, query: str) -> str:
        return query

    def needed(self, target: str, others: Callable[[], Mapping[str, int]], batch: int) -> bool:
        if target not in self._asked:
            self._ask(target, others())
            self._asked.add(target)
        noticed = self._noticed.get(target)
        if noticed is None:
            return False
        return not noticed.is_over(begin_of_batch(self._job.checkpoint, batch, self._disk), self._job_time_ms())

    def _ask(self, target: str, others: Mapping[str, int]) -> None:
        if not self._asked:
            self._noticed = self._read()
        known = self._noticed.get(target)
        if others and not (known and known.has(others)):
            until_ms = self._job_time_ms() + self._job.events.horizon_ms
            self._noticed[target] = Noticed(dict(others), to_tree(ends_of(self._job)), until_ms)
            write_durably(self._disk, self._path, msgspec.json.encode(self._noticed))

    def _read(self) -> dict[str, Noticed]:
        if not self._disk.exists(self._path):
            return {}
        try:
            return msgspec.json.decode(read_whole(self._disk, self._path), type=dict[str, Noticed])
        except msgspec.DecodeError as error:
            raise StoreFormatUnknown(f"{self._path} does not have the expected content ({error})") from error

    def _job_time_ms(self) -> int:
        if self._clock is None:
            self._clock = last_clock(self._job.checkpoint, self._disk)
        return self._clock.at(self._now_ms())
