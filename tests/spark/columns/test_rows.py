from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from gantrymq.errors import ConfigError
from gantrymq.spark.columns.decode import arrow_schema
from gantrymq.spark.columns.rows import DEFAULT_COLUMNS, SPARK_TYPES, columns_of, ddl


def test_properties_are_only_read_when_asked_for() -> None:
    assert set(SPARK_TYPES) - set(DEFAULT_COLUMNS) == {"properties"}


def test_the_arrow_types_are_those_spark_insists_on() -> None:
    """Strings of 32-bit offsets, timestamps in microseconds of UTC, every column nullable (docs/design.md#spark)."""
    schema = arrow_schema(tuple(SPARK_TYPES))
    assert str(schema.field("topic").type) == "string"
    assert str(schema.field("born_timestamp").type) == "timestamp[us, tz=UTC]"
    assert str(schema.field("properties").type) == "map<string, string>"
    assert all(field.nullable for field in schema)


def test_a_schema_of_the_user_is_a_selection() -> None:
    chosen = StructType([StructField("queue_offset", LongType()), StructField("tags", StringType())])
    assert columns_of(chosen) == ("queue_offset", "tags")
    assert ddl(("queue_offset", "tags")) == "queue_offset bigint, tags string"
    assert columns_of(StructType([StructField("properties", MapType(StringType(), StringType()))])) == ("properties",)


def test_a_schema_with_another_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="'topic' has type string, not bigint"):
        columns_of(StructType([StructField("topic", LongType())]))
