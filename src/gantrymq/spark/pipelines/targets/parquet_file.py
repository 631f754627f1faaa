"""Writes the rows of a task as one Parquet file, and says what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_BYTES: Final = 32 << 20
"""Rows of about so many bytes are in memory, and become one group of the file."""
LONGEST_END: Final = 256
"""Texts longer than this are not noted as the ends of a column."""


class File(msgspec.Struct, frozen=True):
    """A file that a task has written."""

    path: str
    """From the directory of the table."""
    rows: int
    size: int
    ends: dict[str, tuple[Any, Any]]
    """The least and greatest value of the columns whose values can be compared in JSON."""
    nulls: dict[str, int]

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decoded(cls, content: bytes) -> File:
        return msgspec.json.decode(content, type=cls)


class FileWriter:
    """Writes a file. Groups of rows come one after the other."""

    def __init__(self, path: str, stream: Any, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._path = path
        self._stream = stream
        self._rows = 0
        """Of a file without columns, the file does not say it."""
        self._writer = pq.ParquetWriter(stream, schema, compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._rows += rows.num_rows

    def finish(self) -> File:
        """The file is complete, and durable if its stream is when it is closed."""
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        found = self._writer.writer.metadata
        ends, nulls = _facts(found, self._writer.schema)
        return File(self._path, self._rows, size, ends, nulls)

    def abandon(self) -> None:
        """The file is of no use. It may be incomplete, and nobody has heard of it."""
        with suppress(Exception):
            self._stream.close()


def write_file(path: str, open_stream: Callable[[], Any], rows: Iterable[pa.RecordBatch]) -> File | None:
    """Write rows to a stream, which is opened for the first of them. None: there are none."""
    writer: FileWriter | None = None
    try:
        for table in groups(rows):
            if writer is None:
                writer = FileWriter(path, open_stream(), table.schema)
            writer.write(table)
        return None if writer is None else writer.finish()
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise


def groups(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables that are large enough for a group of a file."""
    import pyarrow as pa

    some: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        if batch.num_rows:
            some.append(batch)
            size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(some)
            some, size = [], 0
    if some:
        yield pa.Table.from_batches(some)


def _facts(found: Any, schema: pa.Schema) -> tuple[dict[str, tuple[Any, Any]], dict[str, int]]:
    """The ends and the number of nulls of each column that is no list or struct."""
    ends: dict[str, tuple[Any, Any]] = {}
    nulls: dict[str, int] = {}
    for at in range(found.num_columns):
        column = found.schema.column(at)
        if column.path != column.name or column.max_repetition_level or column.max_definition_level > 1:
            continue
        parts = [found.row_group(group).column(at).statistics for group in range(found.num_row_groups)]
        if any(one is None or one.null_count is None for one in parts):
            continue
        nulls[column.name] = sum(one.null_count for one in parts)
        values = [_ends(one, schema.field(column.name).type) for one in parts if one.num_values]
        if values and all(one is not None for one in values):
            ends[column.name] = (min(one[0] for one in values if one), max(one[1] for one in values if one))
    return ends, nulls


def _ends(statistics: Any, kind: pa.DataType) -> tuple[Any, Any] | None:
    """The ends of a group as JSON has them, in an order that is the one of their texts or numbers."""
    import pyarrow as pa

    if not statistics.has_min_max:
        return None
    try:
        least, most = statistics.min, statistics.max
    except (ValueError, OverflowError):  # a time that Python does not have
        return None
    if pa.types.is_integer(kind):
        return int(least), int(most)
    if pa.types.is_string(kind) and max(len(least), len(most)) <= LONGEST_END:
        return str(least), str(most)
    if pa.types.is_timestamp(kind) and kind.tz is not None and isinstance(least, datetime):
        return _instant(least), _instant(most)
    if pa.types.is_date(kind) and isinstance(least, date):
        return least.isoformat(), most.isoformat()
    return None


def _instant(moment: datetime) -> str:
    in_utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return in_utc.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
