"""Decodes answers to pulls to Arrow record batches, column by column, without a Python object for each message.

The answer to a pull is a concatenation of log records (layout: ``gantrymq.protocol.stored_message``). One scan finds
the start of each record. Then every column is one numpy gather, or one Arrow ``take`` over an array of byte ranges.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gantrymq.errors import RemoteProtocolError
from gantrymq.message import flags
from gantrymq.protocol import stored_message as record
from gantrymq.protocol.compression import LibraryMissing, decompress
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.spark.columns.property_columns import PropertyTable
from gantrymq.spark.columns.property_layouts import LayoutTable, layout_table
from gantrymq.spark.columns.ranges import take_ranges, text_column
from gantrymq.spark.columns.rows import SPARK_TYPES

_SIZE: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_SMALLEST: Final = record.FIXED_SIZE
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "timestamp": TIMESTAMP,
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""The Arrow type that Spark requires for each of its own types."""
PIECE_BYTES: Final = 16 * 1024 * 1024
"""Decompressed bodies in one record batch. The bodies of an array take 2 GiB at most, and a pull of 4 MiB may become a
thousand times as large; a body takes 64 MiB at most."""
Ints = Any
"""A numpy array of integers (numpy is not type-checked here)."""


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of the record batches. Spark refuses batches with any other schema."""
    return pa.schema([pa.field(name, ARROW_TYPES[SPARK_TYPES[name]]) for name in columns])


ALIKE_FIRST: Final = 16
MOST_AT_ONCE: Final = 4096
ONE_BY_ONE: Final = 64
"""Records are looked at one by one until the next try, when one has another size than its neighbour."""


def find_starts(data: bytes) -> Ints:
    """The position of every record in ``data``. Raises RemoteProtocolError when the records do not fill it exactly.

    Neighbours often have one size: then one comparison finds many of them.
    """
    found: list[Ints] = []
    position, end, alike, single = 0, len(data), ALIKE_FIRST, ONE_BY_ONE
    while position < end:
        size = _SIZE.unpack_from(data, position)[0] if position + _SIZE.size <= end else 0
        many = min(alike, (end - position) // size) if size >= _SMALLEST else 0
        sizes = np.ndarray((many,), dtype=">i4", buffer=data, offset=position, strides=(size,)) if many > 1 else None
        if sizes is not None and (sizes == size).all():
            found.append(np.arange(position, position + many * size, size, dtype=np.int64))
            position += many * size
            alike, single = min(2 * alike, MOST_AT_ONCE), ONE_BY_ONE
        else:
            starts, position = _one_by_one(data, position, single)
            found.append(np.array(starts, dtype=np.int64))
            alike, single = ALIKE_FIRST, min(2 * single, MOST_AT_ONCE)
    if position != end:
        raise RemoteProtocolError(f"the last record of a pull answer misses {position - end} bytes")
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _one_by_one(data: bytes, position: int, most: int) -> tuple[list[int], int]:
    """The positions of the next records, and the one behind them."""
    starts: list[int] = []
    append = starts.append
    size_at = _SIZE.unpack_from
    end = len(data)
    try:
        while position < end and len(starts) < most:
            append(position)
            (size,) = size_at(data, position)
            if size < _SMALLEST:
                raise RemoteProtocolError(f"the record at byte {position} of a pull answer claims {size} bytes")
            position += size
    except struct.error as error:
        raise RemoteProtocolError(f"a pull answer ends inside the size of the record at byte {position}") from error
    return starts, position


def gather(buffer: Ints, positions: Ints, dtype: str) -> Ints:
    """Big-endian numbers of ``dtype`` at these byte positions, in native order. IndexError beyond the end."""
    width = np.dtype(dtype).itemsize
    windows = np.ndarray((max(len(buffer) - width + 1, 0),), dtype=f"V{width}", buffer=buffer, strides=(1,))
    found: Ints = windows[positions].view(dtype)
    return found.astype(found.dtype.newbyteorder("="))


Unreadable = Callable[[int, RemoteProtocolError], None]


def raised(offset: int, error: RemoteProtocolError) -> None:
    """What becomes of a body that cannot be decompressed where nobody says otherwise."""
    raise RemoteProtocolError(f"the message at offset {offset} of its queue: {error}")


@dataclass(frozen=True)
class Records:
    """Records of one queue whose positions are known and checked, but which are not decoded yet."""

    data: bytes
    starts: Ints
    """Byte position of each record in ``data``."""
    plain: list[bytes] | None = None
    """The compressed bodies, decompressed, in the order of their records; None: they are still to be."""

    @classmethod
    def scan(cls, data: bytes) -> Records:
        """Find the records in the answer to a pull. Raises RemoteProtocolError when a record is incomplete or
        inconsistent."""
        records = cls(data, find_starts(data))
        if len(records):
            records._check()
        return records

    def __len__(self) -> int:
        return len(self.starts)

    def where(self, wanted: Ints) -> Records:
        """Only the records for which the boolean array ``wanted`` holds."""
        return Records(self.data, self.starts[wanted])

    def pieces(self, columns: Collection[str], unreadable: Unreadable = raised) -> Iterator[Records]:
        """The same records in pieces whose bodies fit into an Arrow array, also after they are decompressed.

        ``columns``: those that will be decoded. ``unreadable`` is told the queue offset of a record whose body cannot
        be decompressed, and why; if it returns, the record is left out.
        """
        compressed = np.flatnonzero(self.sys_flags & flags.COMPRESSED)
        if not len(compressed) or "body" not in columns:
            yield self
            return
        first, size, plain = 0, 0, list[bytes]()
        ends = (self.body_starts + self.body_lengths)[compressed].tolist()
        rows = zip(compressed.tolist(), self.body_starts[compressed].tolist(), ends, strict=True)
        for row, begin, end in rows:
            if size >= PIECE_BYTES:
                yield Records(self.data, self.starts[first:row], plain)
                first, size, plain = row, 0, []
            try:
                body = decompress(self.data[begin:end], int(self.sys_flags[row]))
            except LibraryMissing:
                raise
            except RemoteProtocolError as error:
                unreadable(int(self.queue_offsets[row]), error)
                if row > first:
                    yield Records(self.data, self.starts[first:row], plain)
                first, size, plain = row + 1, 0, []
                continue
            plain.append(body)
            size += len(body)
        if first < len(self):
            yield Records(self.data, self.starts[first:], plain)

    def _check(self) -> None:
        magic = self._at(record.AT_MAGIC, ">u4")
        sizes = self._at(record.AT_SIZE, ">i4")
        good = (magic == record.MAGIC_V1) | (magic == record.MAGIC_V2)
        good &= (self.body_lengths >= 0) & (self.body_starts + self.body_lengths + 3 <= self.starts + sizes)
        if good.all():
            good = self._property_starts + self._property_lengths == self.starts + sizes
        if not good.all():
            bad = int(self.starts[int(np.argmin(good))])
            raise RemoteProtocolError(f"the record at byte {bad} of a pull answer is not consistent")

    def _at(self, field: int, dtype: str, shift: Ints = 0) -> Ints:
        return gather(self._buffer, self.starts + (field + shift), dtype)

    @cached_property
    def _buffer(self) -> Ints:
        return np.frombuffer(self.data, dtype=np.uint8)

    @cached_property
    def queue_offsets(self) -> Ints:
        return self._at(record.AT_QUEUE_OFFSET, ">i8")

    @cached_property
    def sys_flags(self) -> Ints:
        return self._at(record.AT_SYS_FLAG, ">i4")

    @cached_property
    def _born_shift(self) -> Ints:
        """By how many bytes the fields after the born host are shifted, because an IPv6 host is longer."""
        return np.where(self.sys_flags & flags.BORN_HOST_V6, record.IPV6_EXTRA, 0)

    @cached_property
    def _shift(self) -> Ints:
        """By how many bytes the fields after both hosts are shifted."""
        return self._born_shift + np.where(self.sys_flags & flags.STORE_HOST_V6, record.IPV6_EXTRA, 0)

    @cached_property
    def body_lengths(self) -> Ints:
        return self._at(record.AT_BODY_LENGTH, ">i4", self._shift).astype(np.int64)

    @cached_property
    def body_starts(self) -> Ints:
        return self.starts + (record.AT_BODY + self._shift)

    @cached_property
    def _property_starts(self) -> Ints:
        topic = self.body_starts + self.body_lengths
        lengths = gather(self._buffer, topic, ">u1").astype(np.int64)
        long_topic = self._at(record.AT_MAGIC, ">u4") == record.MAGIC_V2
        if long_topic.any():
            lengths = np.where(long_topic, gather(self._buffer, topic, ">u2") + 1, lengths)
        # A wrong length must be found by the check that follows, and not cause a read beyond the data.
        return np.minimum(topic + 1 + lengths + 2, len(self.data))

    @cached_property
    def _property_lengths(self) -> Ints:
        return gather(self._buffer, self._property_starts - 2, ">i2").astype(np.int64)

    def have_tags(self, tags: Collection[str]) -> Ints:
        """For each record whether its tag is one of these."""
        found = _Columns(self, "", "").tags()
        return pc.is_in(found, value_set=pa.array(sorted(tags), pa.string())).to_numpy(zero_copy_only=False)

    def batch(self, columns: Sequence[str], topic: str, broker_name: str) -> pa.RecordBatch:
        """These records as a record batch. Only the named columns are decoded."""
        table = _Columns(self, topic, broker_name)
        arrays = [getattr(table, name)() for name in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


class _Columns:
    """One method for each column of ``rows.SPARK_TYPES``, with the name of the column."""

    def __init__(self, records: Records, topic: str, broker_name: str) -> None:
        self._records = records
        self._topic = topic
        self._broker_name = broker_name

    @cached_property
    def _properties(self) -> LayoutTable | PropertyTable:
        records = self._records
        starts, lengths = records._property_starts, records._property_lengths
        found = layout_table(records._buffer, starts, lengths)
        return found or PropertyTable.of(take_ranges(records.data, starts, starts + lengths))

    def topic(self) -> pa.Array:
        return pa.repeat(pa.scalar(self._topic, pa.string()), len(self._records))

    def broker_name(self) -> pa.Array:
        return pa.repeat(pa.scalar(self._broker_name, pa.string()), len(self._records))

    def queue_id(self) -> pa.Array:
        return pa.array(self._records._at(record.AT_QUEUE_ID, ">i4"))

    def queue_offset(self) -> pa.Array:
        return pa.array(self._records.queue_offsets)

    def log_offset(self) -> pa.Array:
        return pa.array(self._records._at(record.AT_LOG_OFFSET, ">i8"))

    def flag(self) -> pa.Array:
        return pa.array(self._records._at(record.AT_FLAG, ">i4"))

    def reconsume_times(self) -> pa.Array:
        return pa.array(self._records._at(record.AT_RECONSUME_TIMES, ">i4", self._records._shift))

    def born_timestamp(self) -> pa.Array:
        return pa.array(self._records._at(record.AT_BORN_TIMESTAMP, ">i8") * 1000).view(TIMESTAMP)

    def store_timestamp(self) -> pa.Array:
        stamps = self._records._at(record.AT_STORE_TIMESTAMP, ">i8", self._records._born_shift)
        return pa.array(stamps * 1000).view(TIMESTAMP)

    def body(self) -> pa.Array:
        records = self._records
        compressed = np.flatnonzero(records.sys_flags & flags.COMPRESSED)
        values = pa.array(self._plain() if len(compressed) else (), pa.binary())
        if len(compressed) == len(records):
            return values
        bodies = take_ranges(records.data, records.body_starts, records.body_starts + records.body_lengths)
        if not len(compressed):
            return bodies
        # Only the compressed bodies become Python objects: the others are taken from the first array.
        places: Ints = np.arange(len(bodies), dtype=np.int64)
        places[compressed] = len(bodies) + np.arange(len(compressed))
        return pa.concat_arrays([bodies, values]).take(pa.array(places))

    def _plain(self) -> list[bytes]:
        """The compressed bodies, decompressed. Whoever reads a whole range has them already, piece by piece."""
        if self._records.plain is not None:
            return self._records.plain
        return [body for piece in self._records.pieces(("body",)) for body in piece.plain or ()]

    def tags(self) -> pa.Array:
        return text_column(self._properties.find(b"TAGS"))

    def keys(self) -> pa.Array:
        return text_column(self._properties.find(b"KEYS"))

    def message_id(self) -> pa.Array:
        ids = text_column(self._properties.find(b"UNIQ_KEY"))
        if not ids.null_count:
            return ids
        return pa.array(
            [text if text is not None else self._place_id(row) for row, text in enumerate(ids.to_pylist())], pa.string()
        )

    def _place_id(self, row: int) -> str:
        records = self._records
        start = int(records.starts[row]) + record.AT_STORE_HOST + int(records._born_shift[row])
        length = 20 if records.sys_flags[row] & flags.STORE_HOST_V6 else 8
        log_offset = _LONG.unpack_from(records.data, int(records.starts[row]) + record.AT_LOG_OFFSET)[0]
        return offset_message_id(records.data[start : start + length], log_offset)

    def properties(self) -> pa.Array:
        return self._properties.maps()
