"""Many bodies in Avro at once: the same field of each body in one step of numpy, and not one body after the other.

It is as strict as the loop of ``avro``, because it accepts only what is plainly right. A body with anything else is
left over, and the loop reads it or says why it is no event. Schemas with parts that are not read here have no such
reader: maps, where a name may come twice, and some rare types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gantrymq.spark.pipelines.formats.avro_cursor import Bodies, Cursor
from gantrymq.spark.pipelines.formats.avro_resolution import (
    Choice,
    Fields,
    Impossible,
    InMember,
    Leaf,
    Many,
    Null,
    Plan,
    Skip,
    resolve,
)
from gantrymq.spark.pipelines.formats.avro_types import TIMES, Type, Unfit
from gantrymq.spark.pipelines.formats.column_types import FIRST_MICROS, LAST_MICROS, ColumnType, Scalar, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

    from gantrymq.spark.pipelines.formats.avro_cursor import Numbers

LONGEST_LIST: Final = 64
"""An element of all lists is one step. Bodies with longer lists are left to the loop."""
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
"""The years 1 to 9999, in days since 1970."""
_WIDEST: Final = {"int": (1 << 31) - 1, "long": (1 << 63) - 1}
_NUMBERS: Final = frozenset({"int", "long", "float", "double"})
_EXACT: Final = {"double": 1 << 53, "float": 1 << 24}
"""Whole numbers up to here are numbers of this type."""
Read: TypeAlias = "Callable[[Cursor], pa.Array]"


@dataclass(frozen=True, slots=True)
class Columns:
    """Reads bodies of one schema."""

    _read: Read

    def decode(self, bodies: pa.Array) -> tuple[pa.Array, Numbers]:
        """The events, and where there is none yet: the event of such a body has no meaning."""
        every = Bodies.of(bodies)
        cursor = every.cursor()
        events = self._read(cursor)
        return events, cursor.wrong | (cursor.at != cursor.end)


def columns_of(plan: Plan) -> Columns | None:
    """None for a plan with parts that are not read here."""
    read = _read(plan, 0)
    return None if read is None else Columns(read)


def _read(plan: Plan, depth: int) -> Read | None:
    match plan:
        case Leaf():
            return _leaf(plan)
        case Skip(writer=writer):
            return _skip(writer, depth)
        case Fields():
            return _fields(plan, depth)
        case Many() if plan.kind.scalar is Scalar.ARRAY:
            return _list(plan, depth)
        case Choice():
            return _choice(plan, depth)
        case InMember():
            return _member(plan, depth)
    return None


def _skip(writer: Type, depth: int) -> Read | None:
    try:
        return _read(resolve(writer, writer).plan, depth) if depth < 20 else None
    except Unfit:
        return None


def _fields(plan: Fields, depth: int) -> Read | None:
    import pyarrow as pa

    reads: list[tuple[str, Read]] = []
    for _, column, inner in plan.fields:
        read = _read(inner, depth + 1)
        if read is None:
            return None
        reads.append((column, read))
    kinds = {one.name: arrow_type(one.kind) for one in plan.kind.fields}
    try:
        constants = {name: pa.array([value], kinds[name]) for name, value in plan.defaults.items()}
    except (pa.ArrowException, ValueError, TypeError):
        return None

    def fields(cursor: Cursor) -> pa.Array:
        found = {column: read(cursor) for column, read in reads}
        for name, constant in constants.items():
            found[name] = constant.take(cursor.zeros())
        names = [pa.field(name, kind) for name, kind in kinds.items()]
        return pa.StructArray.from_arrays([found[one.name] for one in names], fields=names)

    return fields


def _choice(plan: Choice, depth: int) -> Read | None:
    import numpy as np
    import pyarrow as pa

    pairs = zip(plan.writers, plan.branches, strict=True)
    numbers = {(type(branch), getattr(branch, "at", 0)) for one, branch in pairs if one.name in _NUMBERS}
    if len(numbers) > 1:
        # The loop cannot tell int from long, or float from double, and both must decide the same.
        return None
    reads: list[Read | None] = []
    for branch in plan.branches:
        read = None if isinstance(branch, Null | Impossible) else _read(branch, depth)
        if read is None and not isinstance(branch, Null | Impossible):
            return None
        reads.append(read)
    nulls = [isinstance(branch, Null) for branch in plan.branches]
    kind = arrow_type(plan.kind)

    def choice(cursor: Cursor) -> pa.Array:
        chosen = cursor.signed()
        places: Numbers = np.full(len(chosen), -1, np.int64)
        parts: list[Any] = []
        count = 0
        known: Numbers = np.zeros(len(chosen), bool)
        for at, read in enumerate(reads):
            mine = chosen == at
            if nulls[at]:
                known |= mine
            if read is None or not mine.any():
                continue
            known |= mine
            if mine.all():
                return read(cursor)
            rows = np.flatnonzero(mine)
            part = cursor.of(rows)
            parts.append(read(part))
            cursor.follow(rows, part)
            places[rows] = np.arange(count, count + len(rows))
            count += len(rows)
        cursor.wrong |= ~known
        if not parts:
            return pa.nulls(len(chosen), kind)
        values = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return values.take(pa.array(places, mask=places < 0))

    return choice


def _member(plan: InMember, depth: int) -> Read | None:
    import pyarrow as pa

    inner = _read(plan.of, depth)
    if inner is None:
        return None
    fields = [pa.field(one.name, arrow_type(one.kind)) for one in plan.kind.fields]

    def member(cursor: Cursor) -> pa.Array:
        value = inner(cursor)
        columns = [value if at == plan.at else pa.nulls(len(value), one.type) for at, one in enumerate(fields)]
        return pa.StructArray.from_arrays(columns, fields=fields)

    return member


def _list(plan: Many, depth: int) -> Read | None:
    """Lists of one block, as every library writes them, and without the size of the block in bytes."""
    import numpy as np
    import pyarrow as pa

    inner = _read(plan.of, depth + 1)
    if inner is None or plan.kind.of is None:
        return None
    kind, inner_kind = arrow_type(plan.kind), arrow_type(plan.kind.of)

    def whole_list(cursor: Cursor) -> pa.Array:
        counts = cursor.signed()
        counts = cursor.refuse((counts < 0) | (counts > LONGEST_LIST), counts)
        offsets: Numbers = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        parts: list[Any] = []
        places: list[Any] = []
        for at in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > at)
            part = cursor.of(rows)
            parts.append(inner(part))
            cursor.follow(rows, part)
            places.append(offsets[rows] + at)
        # Behind a block there is the next one; the count 0 ends the list.
        rows = np.flatnonzero(counts > 0)
        part = cursor.of(rows)
        part.wrong |= part.signed() != 0
        cursor.follow(rows, part)
        if not parts:
            values = pa.array([], inner_kind)
        else:
            order = np.argsort(np.concatenate(places), kind="stable")
            values = pa.concat_arrays(parts).take(pa.array(order))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)

    return whole_list


def _leaf(plan: Leaf) -> Read | None:
    writer, reader = plan.writer, plan.reader
    if writer.name in ("int", "long"):
        return _whole(writer, reader, plan.kind)
    if writer.name in ("bytes", "fixed") and plan.kind.scalar is Scalar.DECIMAL and writer.name == reader.name:
        return _decimal(writer, plan.kind)
    if reader.logical is not None:
        return None
    kind = arrow_type(plan.kind)
    match writer.name:
        case "boolean":
            return lambda cursor: cursor.boolean()
        case "float" | "double":
            return lambda cursor: cursor.floating(writer.name).cast(kind)
        case "string":
            return lambda cursor: cursor.text().cast(kind)
        case "bytes" if reader.name == "string":
            return lambda cursor: cursor.text()
        case "bytes":
            return lambda cursor: cursor.binary(cursor.length())
        case "fixed":
            return lambda cursor: cursor.binary(cursor.fixed(writer.size))
        case "enum" if not set(writer.symbols) - set(reader.symbols):
            return _symbols(writer)
    return None


def _symbols(writer: Type) -> Read:
    import pyarrow as pa

    symbols = pa.array(writer.symbols, pa.string())

    def symbol(cursor: Cursor) -> pa.Array:
        number = cursor.signed()
        return symbols.take(pa.array(cursor.refuse((number < 0) | (number >= len(symbols)), number)))

    return symbol


def _whole(writer: Type, reader: Type, kind: ColumnType) -> Read | None:
    """Whole numbers, and times."""
    import numpy as np
    import pyarrow as pa

    last = _WIDEST[writer.name]
    first, factor = -last - 1, 1
    if kind.scalar is Scalar.DATE:
        first, last = _FIRST_DAY, _LAST_DAY
    elif reader.logical is not None:
        factor = TIMES[reader.logical.name][1]
        first, last = -(-FIRST_MICROS // factor), LAST_MICROS // factor
    elif reader.name in _EXACT:
        first, last = max(first, -_EXACT[reader.name]), min(last, _EXACT[reader.name])
    # By way of the types between them: Arrow casts no 64 bits to a date.
    steps = [pa.int32()] if kind.scalar is Scalar.DATE else [pa.float64()] if reader.name in _EXACT else []
    steps.append(arrow_type(kind))

    def whole(cursor: Cursor) -> pa.Array:
        number = cursor.signed()
        number = cursor.refuse((number < first) | (number > last), number)
        column = pa.array(number if factor == 1 else np.multiply(number, factor))
        for step in steps:
            column = column.cast(step)
        return column

    return whole


def _decimal(writer: Type, kind: ColumnType) -> Read:
    """Decimals of at most 64 bits, in any number of bytes."""
    import numpy as np
    import pyarrow as pa

    digits = 10 ** min(kind.precision, 18)
    narrow = kind.precision <= 18

    def decimal(cursor: Cursor) -> pa.Array:
        length = cursor.length() if writer.name == "bytes" else cursor.fixed(writer.size)
        unscaled = cursor.unscaled(length)
        if narrow:
            unscaled = cursor.refuse((unscaled <= -digits) | (unscaled >= digits), unscaled)
        # 128 bits: the number, and its sign again.
        wide = np.stack((unscaled, unscaled >> 63), axis=1)
        return pa.Array.from_buffers(arrow_type(kind), len(unscaled), [None, pa.py_buffer(np.ascontiguousarray(wide))])

    return decimal
