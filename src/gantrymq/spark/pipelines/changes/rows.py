"""What a batch does to the rows of one target. Arrow tables in and out, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.changes.operations import IS_DELETE
from gantrymq.spark.pipelines.job import Changes

if TYPE_CHECKING:
    import pyarrow as pa

CHANGE: Final = "gantry_change"
"""The column that says what becomes of a row."""
PLACE: Final = "gantry_place"
"""The column with the message behind a row, among the keys of a batch."""
UPSERT, LEFT_OUT, DELETE = "upsert", "left out", "delete"
"""The row is there afterwards; it goes, because the query of the target leaves it out now; it goes, because the event
says so. Of a row that goes only key and order are filled. A delete is stronger than an upsert of equal order, and a row
that is left out is not: its event is an upsert."""


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Changes of one target, one for each key of the batch."""

    rows: pa.Table
    """The columns of the target, and ``CHANGE``. Upserts come first."""
    places: Sequence[str]
    """The message behind each of them."""


def changed_rows(projected: pa.Table, keys: pa.Table, changes: Changes, target: str) -> ChangedRows:
    """The changes for a target. ``projected``: the rows of its query; ``keys``: as ``Newest.keys`` gives them.

    A key without a row goes: its event is a delete, or the query leaves its row out now. Raises ConfigError for a
    query whose rows are not those of the events.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = list(dict.fromkeys((*changes.key, *changes.order_by)))
    kinds = pa.schema([projected.schema.field(name) for name in names])
    events = keys.select(names).cast(kinds).append_column("_event", pa.array(range(len(keys)), pa.int64()))
    numbered = projected.select(names).append_column("_row", pa.array(range(len(projected)), pa.int64()))
    joined = numbered.join(events, keys=names, join_type="left outer").sort_by("_row")
    if joined["_event"].null_count:
        raise ConfigError(
            f"targets.{target}.sql: the query changes {', '.join(names)}; in a job with [changes] it must return the "
            "key and the order of each event as they are, and rows of this batch only"
        )
    if len(joined["_event"].unique()) < len(projected):
        raise ConfigError(
            f"targets.{target}.sql: the query makes several rows of one event; in a job with [changes] it must make "
            "one or none. To spread an event over several rows, use a job without [changes]"
        )
    at = joined["_event"].combine_chunks()
    gone = events.join(joined.select(["_event"]), keys=["_event"], join_type="left anti").sort_by("_event")
    behind = gone["_event"].combine_chunks()
    deleted = gone.drop_columns(["_event"])
    for name in projected.column_names:
        if name not in names:
            deleted = deleted.append_column(name, pa.nulls(len(gone), projected.schema.field(name).type))
    upserts = projected.append_column(CHANGE, pa.array([UPSERT] * len(projected), pa.string()))
    deleted = deleted.append_column(CHANGE, pc.if_else(keys[IS_DELETE].take(behind), DELETE, LEFT_OUT))
    rows = pa.concat_tables([upserts, deleted.select(upserts.column_names).cast(upserts.schema)])
    return ChangedRows(rows.combine_chunks(), keys[PLACE].take(pa.concat_arrays([at, behind])).to_pylist())


def upserts_of(rows: pa.Table) -> pa.Table:
    """The rows that are there afterwards, without the column ``CHANGE``."""
    import pyarrow.compute as pc

    return rows.filter(pc.equal(rows[CHANGE], UPSERT)).drop_columns([CHANGE])


def gone_of(rows: pa.Table) -> pa.Table:
    """The rows that go."""
    import pyarrow.compute as pc

    return rows.filter(pc.not_equal(rows[CHANGE], UPSERT))
