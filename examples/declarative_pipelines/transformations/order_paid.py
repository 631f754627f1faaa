"""order-paid: for each paid order a shipping record, a change of points and a cleared cart."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
PLACE = ("topic", "broker_name", "queue_id", "queue_offset")
SOURCE = {
    "nameServers": spark.conf.get("spark.shop.nameServers"),
    "subscribe": spark.conf.get("spark.shop.orders"),
    "startingOffsets": "earliest",
    "columns": ",".join([*PLACE, "body"]),
}
ORDER = "order_id string, user_id string, amount_cents bigint, paid_at_ms bigint"
VALID = """coalesce(length(`order`.order_id) > 0 AND length(`order`.user_id) > 0 AND `order`.amount_cents >= 0
    AND `order`.paid_at_ms IS NOT NULL, false)"""


def order_messages() -> DataFrame:
    messages = spark.readStream.format("rocketmq").options(**SOURCE).load()
    return messages.select("*", f.from_json(f.col("body").cast("string"), ORDER).alias("order"))


@dp.table(comment="messages that are no orders")
def rejected() -> DataFrame:
    return order_messages().where(f"NOT {VALID}").select(*PLACE, "body")


@dp.table(comment="each paid order once; a repeat is recognised for 24 hours")
def paid_orders() -> DataFrame:
    orders = order_messages().where(VALID).select("order.*", f.current_timestamp().alias("read_at"))
    # With the time of reading, no row is too late, whatever the order in which queues are read. Spark keeps a key for
    # twice the delay.
    once = orders.withWatermark("read_at", "12 hours").dropDuplicatesWithinWatermark(["order_id"])
    return once.select("order_id", "user_id", "amount_cents", "paid_at_ms")


def new_orders() -> DataFrame:
    return spark.readStream.table("paid_orders").select("*", f.timestamp_millis("paid_at_ms").alias("paid_at"))


@dp.table
def shipping() -> DataFrame:
    return new_orders().selectExpr("order_id", "user_id", "'TO_SHIP' AS status", "paid_at")


@dp.table(comment="a customer earns one point for every 100 cents")
def points() -> DataFrame:
    return new_orders().selectExpr("order_id", "user_id", "amount_cents div 100 AS points", "paid_at")


@dp.table
def cart() -> DataFrame:
    return new_orders().selectExpr("order_id", "user_id", "paid_at AS cleared_at")
