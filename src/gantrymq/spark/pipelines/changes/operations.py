"""What an event does to its row, and why an event that says it badly is none. Spark's columns in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import Changes

if TYPE_CHECKING:
    from pyspark.sql import Column

IS_DELETE: Final = "is_delete"
Fields: TypeAlias = "Callable[[str], Column]"
"""A column of the event by its name."""
_KEYS: Final = (
    "StringType", "ByteType", "ShortType", "IntegerType", "LongType", "DecimalType", "DateType", "TimestampType",
    "TimestampNTZType", "BooleanType",
)  # fmt: skip
"""Types whose values are equal in every target when they are equal here. Numbers with a floating point are not."""
_ORDERS: Final = tuple(name for name in _KEYS if name != "BooleanType")


def is_delete(changes: Changes, field: Fields) -> Column:
    """Whether the event says that its row is gone."""
    from pyspark.sql import functions as f

    if changes.operation is None:
        return f.lit(False)
    return f.coalesce(field(changes.operation).cast("string").isin(list(changes.delete)), f.lit(False))


def refused_operation(changes: Changes, field: Fields) -> list[Column]:
    """Why the operation of an event is none; null if it is one."""
    from pyspark.sql import functions as f

    if changes.operation is None:
        return []
    value = field(changes.operation).cast("string")
    valid = [*changes.upsert, *changes.delete]
    text = f"the column {changes.operation}, which is changes.operation, "
    wrong = f.concat(f.lit(text + "is '"), f.substring(value, 1, 80), f.lit("', and must be " + " or ".join(valid)))
    return [f.when(value.isNull(), f.lit(text + "is null")).when(~value.isin(valid), wrong)]


def refused_types(changes: Changes, event: Any) -> None:
    """Raise ConfigError for a key or an order that cannot be compared in all targets. ``event``: its Spark type."""
    for key, names, valid in (
        ("changes.key", changes.key, _KEYS),
        ("changes.order_by", changes.order_by, _ORDERS),
    ):
        for name in names:
            if name not in event.fieldNames():
                raise ConfigError(
                    f"{key}: {name} must be a column of the events, which have {', '.join(event.fieldNames())}. For a "
                    f'field of a struct, add a column: write [events.columns] and id = "{name}"'
                )
            kind = event[name].dataType
            if type(kind).__name__ not in valid:
                raise ConfigError(
                    f"{key}: the column {name} has the type {kind.simpleString()}, whose values cannot be compared "
                    "exactly in every table; use a text, a whole number, a decimal, a date or a timestamp"
                )
