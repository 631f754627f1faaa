"""The time of a job: it passes only while the job runs, and never goes back. Spark's watermark follows it.

Spark drops a row whose time is behind the watermark. With the time of the message, rows would be lost whenever one
queue is read later than another, for example after its broker was away for a day. With this time a row is never late.
It also makes a stop harmless: a repeat that arrives just after a pause of a week is still recognised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from gantrymq.errors import StoreFormatUnknown
from gantrymq.runtime.disk import Disk, read_whole, write_durably

if TYPE_CHECKING:
    from pyspark.sql import Column


T = TypeVar("T")
FILE: Final = "job_clock.json"


class JobClock(msgspec.Struct, frozen=True, kw_only=True):
    """The clock of one run."""

    resumed_ms: int
    """The job's time at the start of this run."""
    behind_ms: int = 0
    """How far the job's time is behind the time of the machine: the sum of all pauses."""

    def column(self) -> Column:
        """The time of a batch. Spark stores it with the batch, so a batch that runs again has the same time."""
        from pyspark.sql import functions as f

        now = f.current_timestamp() - f.expr(f"make_dt_interval(0, 0, 0, {self.behind_ms / 1000:.3f})")
        return f.greatest(now, f.timestamp_millis(f.lit(self.resumed_ms)))

    def at(self, now_ms: int) -> int:
        """The job's time at a time of the machine, in milliseconds."""
        return max(now_ms - self.behind_ms, self.resumed_ms)


def resume(checkpoint: str, now_ms: int, disk: Disk) -> JobClock:
    """The clock that continues at the last batch of this checkpoint; written there, for the run after this one.

    Raises StoreFormatUnknown for a checkpoint that cannot be read.
    """
    path = f"{checkpoint}/{FILE}"
    last = last_clock(checkpoint, disk)
    batches = [name for name in disk.list(f"{checkpoint}/offsets") if name.isdigit()]
    resumed = now_ms
    if batches:
        resumed = last.at(_batch_time_ms(f"{checkpoint}/offsets/{max(batches, key=int)}", disk))
    clock = JobClock(resumed_ms=resumed, behind_ms=now_ms - resumed)
    disk.make_dirs(checkpoint)
    write_durably(disk, path, msgspec.json.encode(clock))
    return clock


def last_clock(checkpoint: str, disk: Disk) -> JobClock:
    """The clock that the last run has written, which is that of this run once ``resume`` was called."""
    path = f"{checkpoint}/{FILE}"
    return _decoded(read_whole(disk, path), JobClock, path) if disk.exists(path) else JobClock(resumed_ms=0)


class _Facts(msgspec.Struct, rename="camel"):
    """What is needed of the second line of an offsets file."""

    batch_timestamp_ms: int


def _batch_time_ms(path: str, disk: Disk) -> int:
    """When the batch was planned, by the machine's clock.

    Source: OffsetSeqLog of Spark: the version, the facts of the batch, then a line for each source.
    """
    lines = read_whole(disk, path).split(b"\n")
    return _decoded(lines[1] if len(lines) > 1 else b"", _Facts, path).batch_timestamp_ms


def _decoded(data: bytes, kind: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise StoreFormatUnknown(
            f"{path} does not have the expected content ({error}); is it Spark's checkpoint?"
        ) from error
