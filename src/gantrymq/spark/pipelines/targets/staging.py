"""How the rows of a batch get from Spark to a target: tasks stage them, and the driver makes them visible in one step.

A task writes its rows where the target can take them over, as files beside the table or into a staging table, and
returns small descriptions. Nobody sees these rows before the driver commits the descriptions, with the mark of the
batch. What a task has written that was repeated or lost is in no description, and so in no table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gantrymq.errors import GantryError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_COLUMNS: Final = "rows bigint, content binary, refused string, away string"


class TargetAway(GantryError):
    """The server of a target cannot be reached. Nothing of an open transaction is stored, and the same batch may be
    written again."""

    retryable = True
    what_to_do = (
        "Start the server of the target, or correct its address. Run the job again then; it goes on with the same "
        "batch."
    )


class Staged(NamedTuple):
    """What a task says of rows that it has written, or could not write."""

    rows: int
    content: bytes = b""
    """What the target needs to commit them."""
    refused: str | None = None
    """The target cannot have one of these rows, for this reason. Nothing of them is staged."""
    away: str | None = None
    """The target could not be reached."""


class Stage(Protocol):
    """Writes the rows of one batch for one target. Spark pickles it and sends it to the executors."""

    def write(self, rows: Iterable[pa.RecordBatch], task: int) -> Iterator[Staged]:
        """Write the rows of one task of Spark. ``task``: its number; rows of higher ones come later."""


def staged_by_tasks(frame: DataFrame, stage: Stage) -> list[Staged]:
    """Stage the rows of a data frame. Raises TargetAway, and Spark's error."""
    found = [Staged(*row) for row in frame.mapInArrow(_Task(stage), _COLUMNS).collect()]
    for one in found:
        if one.away is not None:
            raise TargetAway(one.away)
    return found


def refusal_in(staged: Sequence[Staged]) -> str | None:
    """Why a row cannot be in the target; None where all can."""
    return next((one.refused for one in staged if one.refused is not None), None)


@dataclass(frozen=True, slots=True)
class _Task:
    """The function that Spark calls in its workers."""

    stage: Stage

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        kinds = (pa.int64(), pa.binary(), pa.string(), pa.string())
        for one in self.stage.write(batches, task):
            arrays = [pa.array([value], kind) for value, kind in zip(one, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(Staged._fields))


@dataclass(frozen=True, slots=True)
class InDescriptions:
    """Stages rows in the descriptions themselves, so that they pass through the driver."""

    def write(self, rows: Iterable[pa.RecordBatch], task: int) -> Iterator[Staged]:
        import pyarrow as pa

        for batch in rows:
            if batch.num_rows:
                yield described(pa.Table.from_batches([batch]))


def described(rows: pa.Table) -> Staged:
    """Rows in a description."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return Staged(rows.num_rows, sink.getvalue().to_pybytes())


def rows_in(staged: Sequence[Staged]) -> pa.Table | None:
    """The rows that ``InDescriptions`` has staged; None: there are none."""
    import pyarrow as pa

    tables = [pa.ipc.open_stream(one.content).read_all() for one in staged]
    return pa.concat_tables(tables) if tables else None


class ThroughDriver(ABC):
    """A target whose rows pass through the driver, in the descriptions of tasks. What such targets do alike; see
    ``port.Writer``."""

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """It has every value that comes here."""
        return {}

    def stage(self, query: str, batch: int) -> Stage:
        return InDescriptions()

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        return True

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        rows = rows_in(staged)
        return 0 if rows is None else self.add(query, batch, rows)

    @abstractmethod
    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        """Add the rows of a batch; how many it has changed."""

    def others(self, query: str) -> Mapping[str, int]:
        """Rows of others need no search."""
        return {}

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        return None
