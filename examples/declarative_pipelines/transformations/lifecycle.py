"""lifecycle: how transactions ended, by topic and window of time, and how long they took.

The half and op messages are tables of their own, so each run reads only new ones from the brokers.
"""

from collections.abc import Sequence

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from gantrymq.message.system_topics import HALF, OP
from gantrymq.spark.pipelines.ready_made.transactions_joined import (
    HALF_COLUMNS,
    OP_COLUMNS,
    by_window,
    transactions_of,
    with_states,
)

spark = SparkSession.active()
NAME_SERVERS = spark.conf.get("spark.shop.nameServers")
WINDOW_MS = int(spark.conf.get("spark.shop.window"))


def everything_in(topic: str, columns: Sequence[str]) -> DataFrame:
    # Brokers delete old half messages with the files of their log. What was deleted before the first run is missing.
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false", "columns": ",".join(columns)}
    source = spark.readStream.format("rocketmq").option("nameServers", NAME_SERVERS)
    return source.option("subscribe", topic).options(**options).load()


@dp.table(comment="half messages of all topics")
def half_messages() -> DataFrame:
    return everything_in(HALF, HALF_COLUMNS)


@dp.table(comment="for each half message that was ended: when and how")
def op_messages() -> DataFrame:
    return everything_in(OP, OP_COLUMNS)


@dp.materialized_view(comment="one row for each topic and window")
def lifecycle() -> DataFrame:
    transactions = transactions_of(spark.read.table("half_messages"), spark.read.table("op_messages"))
    # Op messages of Apache's brokers do not say how a transaction ended: it was committed if its message is archived.
    return by_window(with_states(transactions, spark.read.table("archive")), WINDOW_MS)
