"""The page about Spark names everything there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.spark.columns.rows import OF_KAFKA, SPARK_TYPES
from gantrymq.spark.option_pages import replaced
from gantrymq.spark.options.option import Option
from gantrymq.spark.options.table import DECLARED, WITHOUT_COUNTERPART
from gantrymq.spark.sink import options as sink_options

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "spark.md").read_text()


KAFKA = """
assign subscribe subscribePattern kafka.bootstrap.servers startingTimestamp startingOffsetsByTimestamp startingOffsets
endingTimestamp endingOffsetsByTimestamp endingOffsets failOnDataLoss kafkaConsumer.pollTimeoutMs
fetchOffset.numRetries fetchOffset.retryIntervalMs maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay
minPartitions maxRecordsPerPartition groupIdPrefix kafka.group.id includeHeaders startingOffsetsByTimestampStrategy
"""
"""The options of the source in the guide of Spark's Kafka connector."""


@pytest.mark.parametrize("name", ["docs/spark.md", "docs/spark-sink.md"])
def test_the_tables_of_options_are_those_of_the_declarations(name: str) -> None:
    page = (DOCS.parent / name).read_text()
    assert replaced(page) == page, f"write them anew: python -m gantrymq.spark.option_pages {name}"


def test_every_option_of_the_kafka_source_has_a_counterpart_or_a_reason() -> None:
    counterparts = [name for option in DECLARED for name in option.kafka]
    assert len(counterparts) == len(set(counterparts))
    assert not set(counterparts) & set(WITHOUT_COUNTERPART)
    assert set(KAFKA.split()) <= {*counterparts, *WITHOUT_COUNTERPART}


@pytest.mark.parametrize("declared", [DECLARED, sink_options.DECLARED])
def test_every_name_belongs_to_one_option(declared: tuple[Option, ...]) -> None:
    written = [name.lower() for option in declared for name in (option.name, *option.aliases)]
    assert len(written) == len(set(written))
    assert all(option.meaning for option in declared)


def test_every_column_of_the_kafka_source_is_named_beside_ours() -> None:
    table = PAGE.split("## Columns")[1].split("## Options")[0]
    assert [name for name in OF_KAFKA if f"`{name}`" not in table] == []


def test_every_column_is_documented() -> None:
    table = PAGE.split("## Columns")[1].split("## Options")[0]
    assert [name for name in SPARK_TYPES if f"`{name}`" not in table] == []
