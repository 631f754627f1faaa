"""The columns that the sink takes: names and types, and what to do about a wrong one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gantrymq.errors import ConfigError
from gantrymq.spark.columns.rows import SPARK_TYPES
from gantrymq.spark.sink.options import Guarantee, SinkSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "ordering_key": ("string",),
    "delay_ms": ("bigint", "int"),
    "properties": ("map<string,string>",),
    "flag": ("int",),
}
"""Each column with the types that it may have. Only ``body`` is required.

``topic``: null means the option ``topic``. ``tags``: one tag. ``keys``: words by which the message can be found.
``ordering_key``: messages with the same key go to the same queue. ``delay_ms``: deliver the message this much later.
``properties``: user properties; names that RocketMQ reserves are left out, so the column of the source may be used.
``flag``: a number for the application, which brokers do not look at.
"""


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The position of each column in a row; None: the rows do not have it."""

    body: int
    topic: int | None = None
    tags: int | None = None
    keys: int | None = None
    ordering_key: int | None = None
    delay_ms: int | None = None
    properties: int | None = None
    flag: int | None = None


def sink_columns(schema: StructType, settings: SinkSettings) -> SinkColumns:
    """The columns of ``schema``. Raises ConfigError, which names a wrong column and says what to do."""
    for field in schema.fields:
        allowed = COLUMNS.get(field.name)
        if allowed is None:
            raise ConfigError(_unknown(field.name))
        given = field.dataType.simpleString()
        if given not in allowed:
            raise ConfigError(
                f"column {field.name!r} of the sink rocketmq has type {given}; it must be {' or '.join(allowed)}: "
                + _cast(field.name, allowed[0])
            )
    names = [field.name for field in schema.fields]
    if len(set(names)) != len(names):
        raise ConfigError(f"a column is named twice in {', '.join(names)}; rename one of them")
    if "body" not in names:
        raise ConfigError(
            "the sink rocketmq needs a column 'body' (binary or string); for JSON, select to_json(struct('*')) as body"
        )
    if "topic" not in names and settings.topic is None:
        raise ConfigError("the sink rocketmq does not know the topic; give the option topic or a column 'topic'")
    if "delay_ms" in names and settings.guarantee is Guarantee.EXACTLY_ONCE:
        raise ConfigError(
            "messages of a transaction cannot be delayed; drop the column 'delay_ms', or set "
            "deliveryGuarantee=at_least_once"
        )
    return SinkColumns(**{name: position for position, name in enumerate(names)})


def topics_of(batch: pa.RecordBatch, columns: SinkColumns, default: str | None) -> frozenset[str]:
    """The topics of the rows. ``default``: of a row without one."""
    if columns.topic is None:
        named: list[str | None] = [None] if len(batch) else []
    else:
        named = batch.column(columns.topic).unique().to_pylist()
    return frozenset([topic for one in named if (topic := one or default) is not None])


def _unknown(name: str) -> str:
    there = f"the sink rocketmq has no column {name!r}; it has {', '.join(COLUMNS)}."
    if name in ("value", "key", "headers"):
        other = {"value": "body", "key": "ordering_key", "headers": "properties"}[name]
        return f"{there} That of Spark's Kafka sink is called {other!r} here: rename the column"
    if name == "partition":
        return f"{there} Spark's Kafka sink has it; here, rows of one 'ordering_key' go to one queue"
    if name in SPARK_TYPES:
        return f"{there} The broker sets {name!r} itself: drop the column"
    return f"{there} Drop the column, or put it into the body, for example by to_json(struct('*')) as body"


def _cast(name: str, kind: str) -> str:
    if kind.startswith("map"):
        return f"use CAST({name} AS {kind.upper()})"
    return f"use CAST({name} AS {kind.upper()}), or to_json for a struct"
