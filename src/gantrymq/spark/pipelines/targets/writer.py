"""What a job asks of each of its targets, and which module answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from gantrymq.runtime.disk import Disk
from gantrymq.spark.pipelines.job import (
    DeltaTarget,
    IcebergTarget,
    ParquetTarget,
    PostgresqlTarget,
    Target,
    TopicTarget,
)

if TYPE_CHECKING:
    import pyarrow as pa


class Writer(Protocol):
    """One target while a job runs. A batch is in it whole and once, also after a crash in the middle of any call."""

    def has(self, query: str, batch: int) -> bool:
        """Whether the batch is known to be in the target. A batch without rows may be unknown."""

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        """Add the rows of a batch, unless they are there. Returns how many were added. They are durable then."""

    def keys_of_others(self, query: str, columns: Sequence[str]) -> pa.Table | None:
        """These columns of the rows that ``query`` has not written; None if there are none, or if ``add`` finds rows
        with an equal key by itself."""

    def rows(self) -> int:
        """The number of rows in the target."""

    def finish(self) -> None:
        """The run ends."""

    def close(self) -> None:
        """Let other programs write."""


def open_writer(target: Target, name: str, schema: str, source: Mapping[str, str], disk: Disk) -> Writer:
    """Open a target for writing; ``schema``: its columns as DDL; ``source``: the options of the job's source.

    Raises ConfigError, which says what to install, when its library is missing, and StoreLocked when another job writes
    there.
    """
    # Imported here: each module needs a library of its own.
    if isinstance(target, ParquetTarget):
        from gantrymq.spark.pipelines.targets.parquet import ParquetWriter

        return ParquetWriter(target, schema, disk)
    if isinstance(target, DeltaTarget):
        from gantrymq.spark.pipelines.targets.delta import DeltaWriter

        return DeltaWriter(target)
    if isinstance(target, IcebergTarget):
        from gantrymq.spark.pipelines.targets.iceberg import IcebergWriter

        return IcebergWriter(target)
    if isinstance(target, PostgresqlTarget):
        from gantrymq.spark.pipelines.targets.postgresql import PostgresqlWriter

        return PostgresqlWriter(target, name)
    assert_topic: TopicTarget = target
    from gantrymq.spark.pipelines.targets.topic import TopicWriter

    return TopicWriter(assert_topic, source)
