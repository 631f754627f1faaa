"""The columns of the rows that a target gets: those of its projection, or of dead letters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gantrymq.spark.pipelines.job import DEAD_LETTER_SCHEMA, MESSAGE_COLUMNS

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
