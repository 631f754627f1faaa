"""archive: everything in some topics. Each message is there once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from gantrymq.spark.columns.rows import SPARK_TYPES

spark = SparkSession.active()
SOURCE = {
    "nameServers": spark.conf.get("spark.shop.nameServers"),
    "subscribe": spark.conf.get("spark.shop.archived"),
    "startingOffsets": "earliest",
    "columns": ",".join(SPARK_TYPES),
}


@dp.table(comment="all columns and properties of each message")
def archive() -> DataFrame:
    messages = spark.readStream.format("rocketmq").options(**SOURCE).load()
    return messages.select("*", f.date_format("store_timestamp", "yyyy-MM-dd").alias("day"))
