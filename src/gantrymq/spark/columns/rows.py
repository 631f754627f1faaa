"""The columns of the format ``rocketmq``: names, types, and the columns that a query selects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gantrymq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SPARK_TYPES: Final[dict[str, str]] = {
    "topic": "string",
    "broker_name": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "body": "binary",
    "tags": "string",
    "keys": "string",
    "message_id": "string",
    "born_timestamp": "timestamp",
    "store_timestamp": "timestamp",
    "reconsume_times": "int",
    "flag": "int",
    "log_offset": "bigint",
    "properties": "map<string,string>",
}
"""All columns in the order of the default schema, with their Spark types.

``body`` is decompressed. ``keys`` is as it was sent (several keys are separated by blanks). ``message_id`` is the
producer's id (UNIQ_KEY), or the offset message id if there is none. ``born_timestamp`` is by the producer's clock,
``store_timestamp`` by the broker's. ``log_offset`` is the offset in the broker's commit log.
"""

OF_KAFKA: Final = {
    "key": "keys",
    "value": "body",
    "partition": "queue_id",
    "offset": "queue_offset",
    "timestamp": "store_timestamp",
    "timestampType": "born_timestamp (type 0) and store_timestamp (type 1)",
    "headers": "properties",
}
"""The columns of Spark's Kafka source that have another name here."""

DEFAULT_COLUMNS: Final = tuple(name for name in SPARK_TYPES if name != "properties")


def check_columns(names: Sequence[str]) -> tuple[str, ...]:
    """The names as they are. Raises ConfigError when a name is unknown or occurs twice, or when there is none."""
    if not names:
        raise ConfigError(f"at least one column must be read; there are {', '.join(SPARK_TYPES)}")
    for name in names:
        if name not in SPARK_TYPES:
            there = f"the format rocketmq has no column {name!r}; it has {', '.join(SPARK_TYPES)}"
            kafka = {theirs.lower(): ours for theirs, ours in OF_KAFKA.items()}.get(name.lower())
            raise ConfigError(f"{there}. That of Spark's Kafka source is {kafka} here" if kafka else there)
    if len(set(names)) != len(names):
        raise ConfigError(f"a column is named twice in {', '.join(names)}")
    return tuple(names)


def ddl(columns: Sequence[str]) -> str:
    """The schema of these columns as Spark's DDL text."""
    return ", ".join(f"{name} {SPARK_TYPES[name]}" for name in columns)


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that the user passed to ``.schema(...)``: any selection, in any order.

    Raises ConfigError, which names the first column that is unknown or has another type than in SPARK_TYPES.
    """
    names = check_columns([field.name for field in schema.fields])
    for field in schema.fields:
        given = field.dataType.simpleString()
        if given != SPARK_TYPES[field.name]:
            raise ConfigError(
                f"column {field.name!r} has type {SPARK_TYPES[field.name]}, not {given}; cast it in a select"
            )
    return names
