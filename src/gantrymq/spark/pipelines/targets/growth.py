"""How a table grows to the columns of a job: new ones, and wider types. Arrow schemas and tables, no I/O.

| the job has                                              | the table                                               |
|----------------------------------------------------------|---------------------------------------------------------|
| a column that the table has not                          | gets it; old rows read null                             |
| a wider type, and the kind of table can change to it     | gets that type                                          |
| no column that the table has                             | keeps it; new rows read null                            |
| any other type, also a narrower one                      | stays as it is, and the job is refused before it writes |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gantrymq.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE: Final = ("int8", "int16", "int32", "int64")
_FLOATING: Final = ("float", "double")
_NAMES: Final = {
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean", "date32[day]": "date",
    "large_string": "string", "large_binary": "binary", "timestamp[us]": "timestamp_ntz",
}  # fmt: skip
"""Spark's names of Arrow's types, where they differ."""


class TableDiffers(ConfigError):
    """A table cannot have the rows of a job, and does not grow to them."""

    what_to_do = "Change the table or the job so that their columns agree; `grow` in the job file lets a table grow."


@dataclass(frozen=True, slots=True)
class Growth:
    """What a table lacks. Empty: nothing."""

    added: tuple[pa.Field, ...]
    widened: Mapping[str, tuple[pa.DataType, pa.DataType]]
    """By column: its type, and the wider one."""

    def __bool__(self) -> bool:
        return bool(self.added or self.widened)

    def __str__(self) -> str:
        parts = [f"the column {one.name} {type_name(one.type)}" for one in self.added]
        parts += [
            f"the type {type_name(new)} of {name}, which is {type_name(old)}"
            for name, (old, new) in self.widened.items()
        ]
        return " and ".join(parts)


@dataclass(frozen=True, slots=True)
class Widening:
    """Which types a kind of table can change to wider ones."""

    decimal_scale: bool = True
    """Whether the digits behind the point can become more."""
    date_to_timestamp: bool = True

    def allows(self, old: pa.DataType, new: pa.DataType) -> bool:
        """Whether every value of one type is one of the other, and old files can be read as the other."""
        import pyarrow as pa

        for family in (_WHOLE, _FLOATING):
            if str(old) in family and str(new) in family:
                return family.index(str(old)) < family.index(str(new))
        if pa.types.is_decimal(old) and pa.types.is_decimal(new):
            whole_digits = new.precision - new.scale >= old.precision - old.scale
            return whole_digits and (new.scale == old.scale or (new.scale > old.scale and self.decimal_scale))
        if pa.types.is_date(old) and pa.types.is_timestamp(new):
            return new.tz is None and self.date_to_timestamp
        return self._allows_inside(old, new)

    def _allows_inside(self, old: pa.DataType, new: pa.DataType) -> bool:
        import pyarrow as pa

        def fits(one: pa.DataType, other: pa.DataType) -> bool:
            return same(one, other) or self.allows(one, other)

        if pa.types.is_struct(old) and pa.types.is_struct(new):
            known = {field.name: field.type for field in new}
            return all(field.name in known and fits(field.type, known[field.name]) for field in old)
        if _is_list(old) and _is_list(new):
            return fits(old.value_type, new.value_type)
        if pa.types.is_map(old) and pa.types.is_map(new):
            return same(old.key_type, new.key_type) and fits(old.item_type, new.item_type)
        return False


def growth(table: pa.Schema, wanted: pa.Schema, widening: Widening, target: str) -> Growth:
    """What a table must get to have the rows of a job. ``target``: its key in the job file.

    Raises TableDiffers for types to which it cannot grow.
    """
    added, widened = [], {}
    refused: list[str] = []
    for field in wanted:
        at = table.get_field_index(field.name)
        if at < 0:
            added.append(field.with_nullable(True))
            continue
        old = table.field(at).type
        if same(old, field.type):
            continue
        if widening.allows(old, field.type):
            widened[field.name] = (old, field.type)
        else:
            refused.append(_refusal(field.name, old, field.type, widening, target))
    if refused:
        raise TableDiffers("\n".join(refused))
    return Growth(tuple(added), widened)


def grown(table: pa.Schema, growing: Growth) -> pa.Schema:
    """The schema of a table that has grown."""
    import pyarrow as pa

    wider = {name: new for name, (_, new) in growing.widened.items()}
    return pa.schema([field.with_type(wider.get(field.name, field.type)) for field in table] + list(growing.added))


def as_wide(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with all columns of a table: those that they lack are null."""
    import pyarrow as pa

    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def same(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types of Arrow are one type of a table."""
    import pyarrow as pa

    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return (one.tz is None) == (other.tz is None)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return [field.name for field in one] == [field.name for field in other] and all(
            same(field.type, other.field(field.name).type) for field in one
        )
    if _is_list(one) and _is_list(other):
        return same(one.value_type, other.value_type)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return same(one.key_type, other.key_type) and same(one.item_type, other.item_type)
    return bool(one == other) or type_name(one) == type_name(other)


def type_name(kind: pa.DataType) -> str:
    """The type as a job file writes it."""
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_struct(kind):
        return "struct<" + ", ".join(f"{field.name}: {type_name(field.type)}" for field in kind) + ">"
    if _is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)}, {type_name(kind.item_type)}>"
    return _NAMES.get(str(kind), str(kind))


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _refusal(name: str, old: pa.DataType, new: pa.DataType, widening: Widening, target: str) -> str:
    said = f"{target}: the column {name} is {type_name(old)} in the table and {type_name(new)} in the job"
    if Widening().allows(new, old):
        return (
            f"{said}, which is narrower; a table never becomes narrower. Write {type_name(old)} in body.schema, or "
            f"CAST({name} AS {type_name(old)}) in the query"
        )
    cannot = "; this kind of table cannot be changed so" if Widening().allows(old, new) else ""
    return (
        f"{said}{cannot}. Write CAST({name} AS {type_name(old)}) in the query, or give the column another name, or "
        "write to a new table"
    )
