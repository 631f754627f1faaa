"""Rows as the items of a request with several messages, column by column: no Python object is made for a row.

An item (layout: ``gantrymq.protocol.batch``) is the concatenation of four columns: its head, the body, the length of
the properties, and the properties as text. Arrow joins them, and the result lies in memory as a request needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gantrymq.errors import MessageIllegal
from gantrymq.message import properties
from gantrymq.message.sizes import MAX_BODY_BYTES, MAX_PROPERTIES_BYTES
from gantrymq.spark.sink.columns import SinkColumns
from gantrymq.spark.sink.ids import unique_keys

if TYPE_CHECKING:
    import numpy.typing as npt

HEAD_BYTES: Final = 20
ITEM_BYTES: Final = 22
"""An item without body and properties."""
PROPERTIES_ROOM: Final = 2_048
"""Bytes of the properties that are left for what client and broker add."""
_SEPARATORS: Final = "[\x01\x02]"


@dataclass(frozen=True)
class Items:
    """The rows of one Arrow batch as items, in the order of the rows."""

    items: Any
    """Arrow array of binary."""
    rows: npt.NDArray[np.uint32]
    """The number of each row in its task."""
    topics: Any
    """Arrow array of the topics; None: the topic of the settings."""
    ordering_keys: Any
    """Arrow array of the ordering keys; None: no row has one."""
    delays_ms: Any
    """Arrow array of the delays; None: no row has one."""


class Encoder:
    """Makes the items of one attempt of a task. ``prefix``: of the ids; ``tail``: properties that every row has."""

    def __init__(self, columns: SinkColumns, topic: str | None, prefix: str, tail: str, partition: int) -> None:
        self._columns = columns
        self._topic = topic
        self._prefix = prefix
        self._tail = tail
        self._partition = partition
        self._next_row = 0

    def items(self, batch: pa.RecordBatch) -> Items:
        """Raises MessageIllegal, which names the row, for a row that cannot be a message."""
        rows = np.arange(self._next_row, self._next_row + batch.num_rows, dtype=np.uint32)
        self._next_row += batch.num_rows
        body = self._body(batch.column(self._columns.body))
        text = self._text(batch, rows)
        sizes, lengths = self._sizes(body, text)
        items = pc.binary_join_element_wise(self._heads(batch, sizes, lengths), body, _shorts(lengths[1]), text, b"")
        return Items(
            items, rows, self._topics(batch), _used(batch, self._columns.ordering_key), self._delays(batch)
        )  # fmt: skip

    def _body(self, column: Any) -> Any:
        if column.null_count:
            self._refuse(pc.is_null(column), "has no body (it is null)", "filter such rows out")
        body = column if pa.types.is_binary(column.type) else column.cast(pa.binary())
        lengths = pc.binary_length(body)
        if len(body) and pc.min(lengths).as_py() == 0:
            self._refuse(pc.equal(lengths, 0), "has an empty body", "RocketMQ needs at least one byte")
        return body

    def _text(self, batch: pa.RecordBatch, rows: npt.NDArray[np.uint32]) -> Any:
        """The properties of each row."""
        columns = self._columns
        keys = pa.array(unique_keys(self._prefix, rows))
        parts = [
            self._property(properties.TAGS, batch, columns.tags),
            self._property(properties.KEYS, batch, columns.keys),
            self._property(properties.SHARDING_KEY, batch, columns.ordering_key),
            self._map(batch, columns.properties),
        ]
        parts = [part for part in parts if part is not None]
        name = f"{properties.UNIQ_KEY}\x01".encode()
        return pc.binary_join_element_wise(*parts, name, keys, f"\x02{self._tail}".encode(), b"")

    def _property(self, name: str, batch: pa.RecordBatch, position: int | None) -> Any:
        """One property of each row, empty where the column is null or empty. None: no row has it."""
        if position is None or batch.column(position).null_count == batch.num_rows:
            return None
        column = batch.column(position)
        if pa.types.is_list(column.type):
            column = self._joined(column, name)
        column = self._checked(column, name)
        item = pc.binary_join_element_wise(f"{name}\x01".encode(), column.cast(pa.binary()), b"\x02", b"")
        there = pc.greater(pc.fill_null(pc.binary_length(column), 0), 0)
        return pc.if_else(there, item, pa.scalar(b"", pa.binary()))

    def _joined(self, column: Any, name: str) -> Any:
        """Words as RocketMQ writes them: separated by blanks."""
        joined = pc.binary_join(column.cast(pa.list_(pa.string())), " ")
        if joined.null_count > column.null_count:
            wrong = pc.and_(pc.is_null(joined), pc.is_valid(column))
            self._refuse(wrong, f"has a null among its {name}", "use array_compact, which removes nulls")
        return joined

    def _checked(self, column: Any, name: str) -> Any:
        """Raises MessageIllegal when a text holds one of the characters that separate properties."""
        bad = pc.match_substring_regex(column, _SEPARATORS)
        if pc.any(bad).as_py():
            self._refuse(bad, f"has the character 1 or 2 in {name}", "RocketMQ separates properties by them")
        return column

    def _map(self, batch: pa.RecordBatch, position: int | None) -> Any:
        """The user properties of each row. Those with reserved names, and empty ones, are left out."""
        if position is None or batch.column(position).null_count == batch.num_rows:
            return None
        column = batch.column(position)
        offsets = column.offsets.to_numpy()
        names, values = (_within(flat, offsets) for flat in (column.keys, column.items))
        for flat in (names, values):
            if pc.any(pc.match_substring_regex(flat, _SEPARATORS)).as_py():
                raise MessageIllegal(
                    f"the column 'properties' of partition {self._partition} has the character 1 or 2 in a name or a "
                    "value; RocketMQ separates properties by them, so replace them"
                )
        kept = pc.invert(pc.is_in(names, value_set=_RESERVED))
        kept = pc.and_(kept, pc.greater(pc.fill_null(pc.binary_length(values), 0), 0))
        kept = pc.and_(kept, pc.greater(pc.binary_length(names), 0))
        item = pc.binary_join_element_wise(names, "\x01", pc.fill_null(values, ""), "\x02", "")
        item = pc.if_else(kept, item, "")
        lists = pa.ListArray.from_arrays(pa.array(offsets - offsets[0], type=pa.int32()), item)
        return pc.fill_null(pc.binary_join(lists, ""), "").cast(pa.binary())

    def _sizes(self, body: Any, text: Any) -> tuple[Any, tuple[Any, Any]]:
        bodies = pc.binary_length(body).to_numpy(zero_copy_only=False).astype(np.int64)
        texts = pc.binary_length(text).to_numpy(zero_copy_only=False).astype(np.int64)
        if len(bodies):
            long_body, long_text = int(np.argmax(bodies)), int(np.argmax(texts))
            if bodies[long_body] + texts[long_body] + ITEM_BYTES > MAX_BODY_BYTES:
                raise self._illegal(
                    long_body, f"has {bodies[long_body]} bytes of body", "send a reference to the data instead"
                )
            if texts[long_text] > MAX_PROPERTIES_BYTES - PROPERTIES_ROOM:
                raise self._illegal(
                    long_text, f"has {texts[long_text]} bytes of properties", "move some of them into the body"
                )
        return bodies + texts + ITEM_BYTES, (bodies, texts)

    def _heads(self, batch: pa.RecordBatch, sizes: Any, lengths: tuple[Any, Any]) -> Any:
        """Size, magic, checksum, flag and length of the body of each item."""
        heads: Any = np.zeros((len(sizes), 5), dtype=">i4")
        heads[:, 0] = sizes
        flags = _used(batch, self._columns.flag)
        if flags is not None:
            heads[:, 3] = pc.fill_null(flags, 0).to_numpy(zero_copy_only=False)
        heads[:, 4] = lengths[0]
        return _fixed(heads, HEAD_BYTES)

    def _topics(self, batch: pa.RecordBatch) -> Any:
        if self._columns.topic is None:
            return None
        column = batch.column(self._columns.topic)
        if column.null_count and self._topic is None:
            self._refuse(pc.is_null(column), "has no topic", "fill the column, or give the option topic")
        return pc.fill_null(column, self._topic) if column.null_count else column

    def _delays(self, batch: pa.RecordBatch) -> Any:
        delays = _used(batch, self._columns.delay_ms)
        if delays is None:
            return None
        if pc.any(pc.less(delays, 0)).as_py():
            self._refuse(pc.less(delays, 0), "has a negative delay_ms", "use null for no delay")
        return pc.cast(delays, pa.int64())

    def _refuse(self, wrong: Any, what: str, advice: str) -> None:
        first = int(pc.index(pc.fill_null(wrong, False), True).as_py())
        raise self._illegal(first, what, advice)

    def _illegal(self, index: int, what: str, advice: str) -> MessageIllegal:
        before = self._next_row
        return MessageIllegal(
            f"a row of partition {self._partition} (number {index} of the Arrow batch that ends before row {before}) "
            f"{what}; {advice}"
        )


def _used(batch: pa.RecordBatch, position: int | None) -> Any:
    """A column that has a value in some row, or None."""
    if position is None:
        return None
    column = batch.column(position)
    return None if column.null_count == batch.num_rows else column


def _shorts(lengths: Any) -> Any:
    return _fixed(lengths.astype(">i2"), 2)


def _fixed(values: Any, width: int) -> Any:
    """Rows of bytes as Arrow binary values of ``width`` bytes, without a copy of the bytes."""
    count = len(values)
    offsets: Any = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def _within(flat: Any, offsets: Any) -> Any:
    """The names or values of the maps of a slice; Arrow may return those of the whole array."""
    count = int(offsets[-1] - offsets[0])
    return flat if len(flat) == count else flat.slice(int(offsets[0]), count)


_RESERVED: Final = pa.array(sorted(properties.RESERVED), pa.string())
