"""What a job asks of each of its targets, and the columns of the rows that a target gets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from gantrymq.errors import GantryError
from gantrymq.spark.pipelines.job import DEAD_LETTER_SCHEMA, MESSAGE_COLUMNS
from gantrymq.spark.pipelines.targets.staging import Stage, Staged

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Columns:
    """What a projection yields."""

    names: tuple[str, ...]
    ddl: str
    arrow: pa.Schema
    """As the rows of a batch come; it makes a table before the first row."""


def dead_letter_columns() -> Columns:
    """The columns of the dead letters of every job."""
    import pyarrow as pa

    kinds = (pa.string(), pa.string(), pa.int32(), pa.int64(), pa.binary(), pa.string())
    names = (*MESSAGE_COLUMNS, "reason")
    return Columns(names, DEAD_LETTER_SCHEMA, pa.schema(list(zip(names, kinds, strict=True))))


def ddl_of(schema: StructType) -> str:
    """Columns in Spark's language."""
    return ", ".join(f"{_quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else f"`{name.replace('`', '``')}`"


NOBODY: Final = ""
"""No query has this id. As the name of another one: nobody knows who wrote the rows."""


class RowRefused(GantryError):
    """A target refuses a row, and its message cannot become a dead letter."""

    what_to_do = "Change the row, the job or the target. The message names the row, and says why it is no dead letter."


class Writer(Protocol):
    """One target while a job runs. A batch is in it whole and once, also after a crash in the middle of any call."""

    def has(self, query: str, batch: int) -> bool:
        """Whether the batch is known to be in the target. A batch without rows may be unknown."""

    def stage(self, query: str, batch: int) -> Stage:
        """What tasks of Spark do with the rows of a batch. Called for each attempt."""

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        """Whether the target can have these rows, as far as their values matter. Reasons for which it could have no
        row at all are errors. If it can, ``commit`` is called next with the same."""

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        """Make the staged rows of a batch visible, unless they are. Returns how many were added. They are durable
        then."""

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """The rows that the target cannot have because of their values: by index, with the reason. Asked only for a
        batch that was not accepted, and for parts of it."""

    def others(self, query: str) -> Mapping[str, int]:
        """Who else has written here, each with its last batch; of nobody when ``add`` finds rows with an equal key by
        itself. Rows of which nobody knows who wrote them are those of ``NOBODY``."""

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        """Those of ``keys`` that rows of others have. Where a table does not say who wrote a row, its own are among
        them. Memory is needed for the keys of the batch only. None: there are none."""

    def rows(self) -> int:
        """The number of rows in the target."""

    def finish(self) -> None:
        """The run ends."""

    def close(self) -> None:
        """Let other programs write."""
